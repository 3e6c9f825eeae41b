"""Sphinx's settings for the site; ``flashlab.website.render`` passes this folder."""

import re

from flashlab import __version__

project = "flashlab"
author = "flashlab contributors"
version = release = __version__
html_title = "flashlab"
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "flashlab.website.mathml",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # chapters are executed before, in workspaces of their own
nb_ipywidgets_js = {}  # explorers are live by a script of the site's own
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_merge_streams = True
html_math_renderer = "mathml"
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
add_module_names = False

html_theme = "sphinx_book_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["live.js"]
html_show_copyright = False
html_show_sphinx = False
html_show_search_summary = False  # summaries are fetched, which a page on a disk may not
html_copy_source = False
html_theme_options = {
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],  # the sidebar has the search field
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system is
templates_path = []
exclude_patterns = []
pygments_style = "a11y-high-contrast-light"


def readable(_app, _what, _name, _object, _options, signature, returned):
    """Sphinx cannot parse a class as a default, and then shows its marks for short names."""
    if not signature or "<class" not in signature:
        return None
    named = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", signature)
    return re.sub(r"~(?:\w+\.)*", "", named), returned


def setup(app):
    """What Sphinx calls."""
    app.connect("autodoc-process-signature", readable)
