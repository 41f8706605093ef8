"""Configuration of the documentation: ``make docs`` builds it with warnings as errors."""

import inspect
import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from jupyter_client.manager import KernelManager

# pages run in the interpreter that builds them, and not in a kernel of the user's own
os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
# two kernels with a pool of BLAS threads each are slower than none on a small machine
os.environ.setdefault("OMP_NUM_THREADS", "1")
# a kernel whose messages are not encrypted warns of it, each of them
if hasattr(KernelManager, "transport_encryption"):
    KernelManager.transport_encryption.default_value = "auto"
sys.path.insert(0, str(Path(__file__).parent / "_ext"))
# notebooks run in a folder of their own, and one imports the script beside it
beside = str(Path(__file__).resolve().parents[1] / "notebooks")
os.environ["PYTHONPATH"] = os.pathsep.join([beside, *filter(None, [os.getenv("PYTHONPATH")])])

project = "pymc_tempering"
author = "The pymc_tempering developers"
copyright = "2026, the pymc_tempering developers"
version = release = installed_version("pymc-tempering")

extensions = [
    "myst_nb",
    "schema_table",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_design",
]
exclude_patterns = ["_build", "_templates", "figures"]
templates_path = ["_templates"]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}
# names of arguments and of estimators stand between single backticks in docstrings
default_role = "literal"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Figures in the text are printed by the cells: a page that fails is an error, not a stale page.
nb_execution_mode = "auto"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 3600  # stops what hangs; a busy machine is slow
nb_merge_streams = True

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
# a docstring may list a paper without a mark in its text
suppress_warnings = ["ref.footnote"]

html_theme = "pydata_sphinx_theme"
html_title = "pymc_tempering"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"installation": [], "references": [], "changelog": [], "when_not": []}
html_show_sourcelink = False


def skip_tuple_fields(app, what, name, obj, skip, options):
    """Leave out the fields of named tuples, which the Attributes section describes."""
    return True if (getattr(obj, "__doc__", "") or "").startswith("Alias for field") else None


def show_own_signature(app, what, name, obj, options, signature, return_annotation):
    """Show what a step method takes; PyMC's own `__new__` hides it."""
    if what != "class" or signature != "(*args, **kwargs)":
        return None
    parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
    shown = [
        parameter.replace(annotation=parameter.empty)
        for parameter in parameters
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    return str(inspect.Signature(shown)), return_annotation


def setup(app):
    app.connect("autodoc-skip-member", skip_tuple_fields)
    app.connect("autodoc-process-signature", show_own_signature)
