"""Export a Transformer as an `.argosmodel` package, which Argos Translate and LibreTranslate install and run.

A package is a ZIP archive of one folder: metadata.json, a CTranslate2 model, a SentencePiece model and a README.
"""

from __future__ import annotations

import json
import zipfile
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.errors import UserError
from glassformer.files import atomic_write, write_text
from glassformer.interop.ctranslate2 import write_checked_model
from glassformer.interop.sentencepiece_model import sentencepiece_model
from glassformer.interop.translation_export import Sample, TranslationRun, load_translation_run, new_output
from glassformer.text.languages import language_name, languages_of_files

ARGOS_VERSION = "1.9"  # the oldest version of Argos Translate that reads the package
FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # the same run gives the same archive


def export_argos(run: Path, out: Path, precision: str = "int8", languages: tuple[str, str] | None = None) -> str:
    """Write a run as an Argos package; return a description of the comparison with the run."""
    translation = load_translation_run(run, "Argos Translate")
    codes = languages or languages_of_files(translation.run.settings.data.train)
    if codes is None:
        raise UserError(
            "The languages of this run are unknown.",
            where=str(run),
            hint="name them: --languages en:de",
        )
    if out.suffix != ".argosmodel":
        raise UserError("An Argos package is a file named .argosmodel.", where=str(out), hint=f"-o {out}.argosmodel")
    model = sentencepiece_model(translation.run.tokenizer)
    with new_output(out), TemporaryDirectory() as temporary:
        folder = Path(temporary) / f"translate-{codes[0]}_{codes[1]}-glassformer"
        (folder / "model").mkdir(parents=True)
        (folder / "sentencepiece.model").write_bytes(model)
        segmented = _check_segmentation(translation, model, out)
        comparison = write_checked_model(translation, folder / "model", precision)
        write_text(folder / "metadata.json", json.dumps(_metadata(*codes), indent=2))
        write_text(
            folder / "README.md", f"# {codes[0]} → {codes[1]}\n\n{translation.model.describe()}; {comparison}.\n"
        )
        _zip(folder, out)
    return f"{segmented}; {comparison}"


def _metadata(source: str, target: str) -> dict[str, str | list[str]]:
    return {
        "package_version": version("glassformer"),
        "argos_version": ARGOS_VERSION,
        "from_code": source,
        "from_name": language_name(source),
        "to_code": target,
        "to_name": language_name(target),
        "links": [],
    }


def _check_segmentation(translation: TranslationRun, model: bytes, out: Path) -> str:
    """Compare the tokens of SentencePiece with ours on the sample; refuse a model that differs often."""
    import sentencepiece

    tokenizer = translation.run.tokenizer
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = [tokenizer.decode(source) for source in Sample.of(translation.run).sources]
    same = sum(processor.encode(line, out_type=str) == tokenizer.pieces(tokenizer.encode(line)) for line in lines)
    text = f"identical tokens: {same} of {len(lines)} sentences"
    if same < 0.95 * len(lines):
        raise UserError(
            f"SentencePiece splits the text differently ({text}).", where=str(out), hint="report this as a bug"
        )
    return text


def _zip(folder: Path, out: Path) -> None:
    with atomic_write(out) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                info = zipfile.ZipInfo(str(path.relative_to(folder.parent)), FIXED_DATE)
                archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
