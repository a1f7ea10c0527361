"""Reports: a campaign as Markdown, JSON and one HTML page. Pure functions of the campaign.

`render_campaign` gives every file of a campaign directory; `summarize` the model behind them.
"""

from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.summarize import summarize
from roofsmith.report.summary import Summary

__all__ = ["Summary", "render_campaign", "summarize"]
