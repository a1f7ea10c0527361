"""Reports: a campaign as Markdown, JSON and one HTML page. Pure functions of the campaign.

`campaign_files.render_campaign` gives every file of a campaign directory; `summarize.summarize` the
model behind them.
"""
