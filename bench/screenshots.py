"""Take screenshots of the studio for the guide: desktop in English and Korean, and phone in dark mode.

    python bench/screenshots.py [RUN …] [--out docs/images] [--views attention decode …] [--every]

Needs Chromium, Playwright and Pillow. Without RUN the phrasebook's model is taken, as `glassformer studio` does, and
for the comparison a GRU with additive attention, trained on the same sentences; both are trained on first use.
With --every each view is taken at each size, in light and dark, in both languages.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from glassformer.cli.demo import SETTINGS, train_phrasebook

TIRED = "text=The+animal+didn%27t+cross+the+street+because+it+was+too+tired."
VIEWS = {
    "first": "",
    "worksheet": f"#/worksheet?block=encoder.0.self&tensor=encoder.0.self.scores&cell=0,9,1&{TIRED}",
    "attention": f"#/attention?kind=encoder&layer=1&head=1&row=9&{TIRED}",
    "lines": f"#/attention?kind=cross&as=lines&words=1&row=1&{TIRED}",
    "decode": f"#/decode?step=3&{TIRED}",
    "positions": "#/positions",
    "together": "#/positions?part=together",
    "masks": "#/positions?part=masks&masks=padding,cross",
    "stream": "#/stream?lens=1&at=2",
    "intervene": f"#/intervene?changes=silence%3Dencoder.1.self.0%3Bcut%3Dencoder.0.ff&grid=encoder&{TIRED}",
    "compare": f"#/compare?{TIRED}",  # give it two runs
    "training": f"#/training?{TIRED}",
}
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
KEPT = {"": ("desktop", "light", "en"), "-ko": ("desktop", "light", "ko"), "-phone": ("phone", "dark", "en")}
EVERY = {f"-{'-'.join(how)}": how for how in itertools.product(SIZES, ("light", "dark"), ("en", "ko"))}
OLDER = {
    "model.family": "recurrent",
    "model.cell": "gru",
    "model.attention": "additive",
}  # compared with the Transformer
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--views", nargs="*", choices=VIEWS, default=list(VIEWS))
    parser.add_argument("--every", action="store_true", help="each size, theme and language")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    runs = given.runs or own_runs()
    command = [sys.executable, "-m", "glassformer", "studio", *runs, "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            take(found[0], given.views, EVERY if given.every else KEPT, given.out)
        finally:
            server.terminate()


def own_runs() -> list[str]:
    runs = {Path("runs/demo-en-fr"): SETTINGS, Path("runs/demo-en-fr-gru"): older_settings()}
    for run, settings in runs.items():
        if not run.exists():
            train_phrasebook("fr", run, settings)
    return [str(run) for run in runs]


def older_settings() -> dict[str, object]:
    kept = {name: value for name, value in SETTINGS.items() if not name.startswith("model.")}
    return {**kept, **OLDER, "model.layers": 1, "model.d_model": SETTINGS["model.d_model"]}


def take(address: str, views: list[str], hows: dict[str, tuple[str, str, str]], out: Path) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for ending, how in hows.items():
            for view in views:
                file = out / f"studio-{view}{ending}.png"
                picture(browser, address + VIEWS[view], how, file)
                print(file)
        browser.close()


def picture(browser: Browser, address: str, how: tuple[str, str, str], file: Path) -> None:
    size, theme, language = how
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, locale=language, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".view")
    page.wait_for_load_state("networkidle")
    if page.locator(".fold > summary").count():
        page.locator(".fold > summary").click()
        page.wait_for_selector(".tree")
    page.screenshot(path=file, full_page=True)
    context.close()
    with Image.open(file) as taken:  # a palette that keeps rare colours; a third as large
        colours = taken.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        colours.save(file, optimize=True)


if __name__ == "__main__":
    main()
