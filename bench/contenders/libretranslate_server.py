"""LibreTranslate with one Argos package: python libretranslate_server.py PACKAGE.argosmodel PORT

The package comes from `glassformer export RUN --to argos`, so both servers have the same weights. LibreTranslate splits
texts into sentences with a model that it downloads when it is first used. A regular expression replaces it here, which
costs less, so that the server also starts without a network.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


class Sentencizer:
    """Splits after . ! ? and a space."""

    def __init__(self, package) -> None:
        pass

    def split_sentences(self, text: str) -> list[str]:
        return re.split(r"(?<=[.!?])\s+", text)


def main() -> None:
    from argostranslate import package, translate
    from libretranslate import init

    package.install_from_path(Path(sys.argv[1]))
    translate.MiniSBDSentencizer = Sentencizer
    init.boot = lambda *arguments: None  # downloads further packages where fewer than two are installed
    sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", sys.argv[2], "--disable-web-ui"]
    from libretranslate.main import main as serve

    serve()


if __name__ == "__main__":
    main()
