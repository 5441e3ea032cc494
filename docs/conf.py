"""The documentation site: `make docs` builds it into build/docs. Sphinx reads this file."""

import re

from sphinx.application import Sphinx

project = "Roost"
author = copyright = "the Roost authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["conf.py"]
html_theme = "furo"
html_title = "Roost"
html_favicon = "../daemon/roostd/page/static/roost.svg"
html_logo = "../daemon/roostd/page/static/roost.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# The site works without a network: no fonts, scripts or search from elsewhere.
html_theme_options = {"source_repository": None, "footer_icons": []}
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"
# Console lines name hosts ("control1#"), and some blocks show output or comments of their own kind.
suppress_warnings = ["misc.highlighting_failure"]


def _name_pages_outside(app: Sphinx, page: str, source: list[str]) -> None:
    """Write links to pages of the repository outside docs/ as text: the site does not have them."""
    outside = re.escape("../" * (page.count("/") + 1))
    source[0] = re.sub(rf"\[([^]]*)\]\({outside}([\w/.-]+\.md)[^)]*\)", r"\1 (`\2`)", source[0])


def setup(app: Sphinx) -> None:
    """Connect what this file adds; called by Sphinx."""
    app.connect("source-read", _name_pages_outside)
