"""How Sphinx builds the site: `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "extensions")]

import nvdsl  # noqa: E402

project = "nvdsl"
author = "the nvdsl contributors"
copyright = "the nvdsl contributors"
version = release = nvdsl.__version__

extensions = ["myst_parser", "repository", "public", "chapter"]
exclude_patterns = ["extensions"]
root_doc = "index"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3  # `tuning.md#the-cache` is found, as on GitHub
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # a block of pseudo-code is shown as it is

smartquotes = False  # `--tile` stays two hyphens
highlight_language = "text"  # of blocks that name no language
pygments_style = "friendly"
pygments_dark_style = "github-dark"

html_theme = "furo"
html_title = f"nvdsl {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_extra_path = ["../build/docs/extra"]  # `make docs` makes interactive/ there, as `make pages` does

linkcheck_anchors = False  # GitHub and arXiv make theirs with JavaScript
linkcheck_timeout = 20
