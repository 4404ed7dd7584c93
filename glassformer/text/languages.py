"""Names of languages by their ISO 639-1 codes, and the languages of a corpus by the names of its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "lt": "Lithuanian", "lv": "Latvian", "ms": "Malay", "nb": "Norwegian", "nl": "Dutch", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian",
    "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def language_name(code: str) -> str:
    """Return the English name of a language; the code itself if it has none here."""
    return NAMES.get(code, code)


def languages_of_files(train: Sequence[str | Sequence[str]]) -> tuple[str, str] | None:
    """Return the codes of source and target from the suffixes of the training files (`train.en train.de`).

    Args:
        train: the setting `data.train`.
    """
    names = [side if isinstance(side, str) else side[0] for side in train]
    codes = [PurePath(name.removesuffix(".gz")).suffix[1:] for name in names]
    if len(names) != 2 or any(code not in NAMES for code in codes) or codes[0] == codes[1]:
        return None
    return codes[0], codes[1]
