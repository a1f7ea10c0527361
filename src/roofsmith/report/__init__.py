"""A campaign, rendered: Markdown, HTML, JSON."""
