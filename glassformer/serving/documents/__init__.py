"""Documents: text, HTML and subtitles, split into sentences and reassembled from their translations.

sentences.py     sentence boundaries
placeholders.py  parts of a text that are never translated: `%1$s`, `{name}`, addresses
segment.py       a run of text with inline markup; its sentences
projection.py    inserts markup and placeholders into a translation, by the word alignment
document.py      `Document`: plain text
html.py          HTML
subtitles.py     SubRip subtitles (.srt)
"""
