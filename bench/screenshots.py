"""The studio's views as pictures for the guide: at desktop and phone size, light and dark, in English and Korean.

    python bench/screenshots.py [RUN] [--out docs/images]

Needs Chromium and Playwright. Without RUN the phrasebook's model is taken, as `glassformer studio` does.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

TIRED = "text=The+animal+didn%27t+cross+the+street+because+it+was+too+tired."
VIEWS = {
    "first": "",
    "worksheet": f"#/worksheet?block=encoder.0.self&tensor=encoder.0.self.scores&cell=0,9,1&{TIRED}",
    "attention": f"#/attention?kind=encoder&row=9&{TIRED}",
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
STYLES = (("light", "en"), ("dark", "en"), ("light", "ko"))
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--views", nargs="*", choices=VIEWS, default=list(VIEWS))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "glassformer", "studio", *given.run, "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            take(found[0], given.views, given.out)
        finally:
            server.terminate()


def take(address: str, views: list[str], out: Path) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for size, (width, height) in SIZES.items():
            for theme, language in STYLES:
                how = {"color_scheme": theme, "locale": language, "reduced_motion": "reduce"}
                context = browser.new_context(viewport={"width": width, "height": height}, **how)
                for view in views:
                    page = context.new_page()
                    page.goto(address + VIEWS[view])
                    page.wait_for_selector(".view")
                    page.wait_for_load_state("networkidle")
                    if page.locator(".fold > summary").count():
                        page.locator(".fold > summary").click()
                        page.wait_for_selector(".tree")
                    file = out / f"studio-{view}-{size}-{theme}-{language}.png"
                    page.screenshot(path=file, full_page=True)
                    page.close()
                    print(file)
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
