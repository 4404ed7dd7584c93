"""Figures of the benchmarks (pip install glassformer[pictures])."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.errors import UserError


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure of this size in inches."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UserError(
            "The chart needs matplotlib, which is not installed.", hint='pip install "glassformer[pictures]"'
        ) from None
    mpl.rcParams["svg.hashsalt"] = "glassformer"  # reproducible files
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path) -> None:
    """Save a figure in the format of its file name, without a date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
