"""Documents: text, HTML and subtitles, taken apart into sentences and put together again from their translations.

sentences.py     sentence boundaries
placeholders.py  parts of a text that are never translated: `%1$s`, `{name}`, addresses
segment.py       a run of text with inline markup; its sentences
projection.py    markup and placeholders put into a translation, by the word alignment
document.py      `Document`: plain text
html.py          HTML
subtitles.py     SubRip subtitles (.srt)
"""
