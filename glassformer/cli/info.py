"""The command `glassformer info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def info(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run folder")],
    as_json: Annotated[bool, typer.Option("--json", help="print one line of JSON")] = False,
) -> None:
    """Show the settings, scores and training progress of a run.

    Example: glassformer info runs/en-de
    """
    from glassformer.inference.run_folder import RunFolder, load_settings
    from glassformer.inference.search_engine import engine_of

    folder = RunFolder(run)
    settings = load_settings(folder)
    log = _last_events(folder.log)
    engine, reason = engine_of(settings.model)
    if as_json:
        print(
            json.dumps(
                {
                    "run": str(run),
                    "settings": settings.model_dump(),
                    "finished": folder.card.exists(),
                    "last": log,
                    "engine": engine,
                    "engine_reason": reason,
                }
            )
        )
        return
    print(settings.to_toml())
    for event in log.values():
        shown = {key: value for key, value in event.items() if key not in ("event", "time")}
        print(f"{event['event']}: " + ", ".join(f"{key} {value}" for key, value in shown.items()))
    state = "finished" if folder.card.exists() else f"not finished (continue with: glassformer train -o {run} --resume)"
    weights = f"{folder.model.stat().st_size / 1e6:.1f} MB of weights" if folder.model.exists() else "no weights yet"
    print(f"engine on this machine: {engine} ({reason})")
    print(f"{run}: {state}, {weights}")


def _last_events(log: Path) -> dict[str, dict[str, object]]:
    """Return the last event of each kind, without notes."""
    from glassformer.training.events import read_log

    last: dict[str, dict[str, object]] = {}
    for event in read_log(log):
        kind = f"{event['event']} {event['split']}" if "split" in event else event["event"]
        if kind in ("progress", "validated", "finished") or kind.startswith("tested"):
            last[kind] = event
    return last
