"""glassformer predict"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.arguments import refuse_bytes
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.decoding.sampling import Sampling
    from glassformer.inference import (
        ContextualEmbedder,
        ImageClassifier,
        MaskFiller,
        MusicGenerator,
        QuestionAnswerer,
        SentenceEmbedder,
        TextClassifier,
        TextGenerator,
        TextTagger,
    )

LINES_AT_ONCE = 1024
AROUND = 40  # characters shown before and behind an answer


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder that train wrote")],
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT", help="texts, image files, a prompt, or four pitches of a first chord", show_default=False
        ),
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("-i", "--input", help="file with one text a line (.gz welcome)")
    ] = None,
    output_file: Annotated[Path | None, typer.Option("-o", "--output", help="of music: the .mid file")] = None,
    length: Annotated[
        int | None, typer.Option(min=1, help="tokens to write (500), or bars of music (8 or more)", show_default=False)
    ] = None,
    temperature: Annotated[float, typer.Option(help="of what is drawn by chance: below 1 safer, above 1 wilder")] = 1.0,
    top_k: Annotated[int, typer.Option(help="only the k likeliest tokens; 0 for all")] = 0,
    top_p: Annotated[float, typer.Option(help="only the likeliest that make up this share")] = 1.0,
    seed: Annotated[int, typer.Option(help="another seed, another draw")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """Use a run of any task but translation: label, tag, answer, go on with a text, compose, fill a blank.

    Example: glassformer predict runs/sst2 "a fine film"

    Images, brought to the size that the model knows: glassformer predict runs/fashion boot.png shirt.jpg

    A question and a text: glassformer predict runs/qa "When was it?" "It was in the 1920s." (-i: question<TAB>text a
    line, or .json)

    Tags: glassformer predict runs/ewt "Dogs bark loudly."

    A language model: glassformer predict runs/shakespeare "ROMEO:" --length 300 --temperature 0.8

    Music: glassformer predict runs/chorales -o piece.mid "67 62 59 43"

    Masked words: glassformer predict runs/bert "The cat sat on the ___."
    """
    if text and input_file:
        raise UserError("Text and -i were both given.", hint="give one of them")
    refuse_bytes(*text or [])
    from glassformer.decoding.sampling import Sampling
    from glassformer.inference import (
        ContextualEmbedder,
        ImageClassifier,
        MusicGenerator,
        QuestionAnswerer,
        TextGenerator,
        load_predictor,
    )

    sampling = Sampling(temperature, top_k, top_p, seed)
    predictor = load_predictor(run)
    if output_file is not None and not isinstance(predictor, MusicGenerator):
        raise UserError("Only music is written to a file.", where="-o", hint="send the output there: > FILE")
    if isinstance(predictor, ContextualEmbedder) and not as_json:
        raise UserError(
            "Vectors are many numbers.", hint=f'say --json; or compare them: glassformer explain {run} "…" "…"'
        )
    if isinstance(predictor, MusicGenerator):
        _compose(predictor, text, output_file, length, sampling, as_json)
        return
    if not text and input_file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UserError("There is nothing to look at.", hint="give a text, -i FILE, or lines on standard input")
    if isinstance(predictor, TextGenerator):
        _continue(predictor, _texts(text, input_file), length, sampling, as_json)
        return
    if (length, temperature, top_k, top_p, seed) != (None, 1.0, 0, 1.0, 1):
        raise UserError("Nothing is drawn by chance here.", hint="leave out --length, --temperature, --top-k …")
    match predictor:
        case QuestionAnswerer():
            _answer_questions(predictor, _questions(text, input_file), as_json)
        case ImageClassifier():
            _label_images(predictor, _texts(text, input_file), as_json)
        case ContextualEmbedder():
            _print_vectors(predictor, _texts(text, input_file))
        case _:
            _answer(predictor, _texts(text, input_file), as_json)


def _texts(text: list[str] | None, input_file: Path | None) -> Iterator[str]:
    from glassformer.text.lines import read_lines

    return iter(text) if text else read_lines(input_file or sys.stdin)


def _answer(
    predictor: TextClassifier | TextTagger | MaskFiller | SentenceEmbedder, texts: Iterator[str], as_json: bool
) -> None:
    """One line for each text. A blank line, as a file may have some, is answered by a blank one."""
    from glassformer.inference import MaskFiller, SentenceEmbedder, TextClassifier, TextTagger, refuse_empty

    show = {
        TextClassifier: _show_label,
        TextTagger: _show_tags,
        MaskFiller: _show_filled,
        SentenceEmbedder: _show_vector,
    }[type(predictor)]
    every = 0
    while chunk := list(islice(texts, LINES_AT_ONCE)):
        if not every and len(chunk) == 1:
            refuse_empty(chunk)
        every += len(chunk)
        full = [text for text in chunk if text.strip()]
        answers = iter(predictor.predict(full))
        for text in chunk:
            print(show(text, next(answers), as_json) if text.strip() else "")


def _questions(text: list[str] | None, input_file: Path | None) -> Iterator[tuple[str, str]]:
    """Questions with their texts: two arguments, the entries of a .json file, or a line each with a tab in between."""
    from glassformer.data.corpus import suffix_of
    from glassformer.data.question_answering import read_questions

    if text:
        if len(text) != 2:
            raise UserError(f"{len(text)} texts were given.", hint='give two: "the question" "the text"')
        yield text[0], text[1]
    elif input_file is not None and suffix_of(input_file) == "json":
        yield from ((asked.question, asked.text) for asked in read_questions([input_file])[0])
    else:
        for number, line in enumerate(_texts(None, input_file), 1):
            question, tab, about = line.partition("\t")
            if not tab:
                where = f"{input_file or 'standard input'}:{number}"
                raise UserError("This line has no tab.", where=where, hint="write question<TAB>text on every line")
            yield question, about


def _answer_questions(answerer: QuestionAnswerer, questions: Iterator[tuple[str, str]], as_json: bool) -> None:
    """One line for each: the answer, its place in the text, its probability, and what stands around it."""
    while chunk := list(islice(questions, LINES_AT_ONCE)):
        for (question, text), found in zip(chunk, answerer.predict(chunk), strict=True):
            if as_json:
                print(json.dumps({"question": question} | asdict(found), ensure_ascii=False))
            elif found.answer is None:
                print(f"(no answer in the text)\t\t{found.probability:.3f}")
            else:
                before, after = text[: found.start][-AROUND:], text[found.end :][:AROUND]
                shown = " ".join(f"{before}[{found.answer}]{after}".split())
                print(f"{found.answer}\t{found.start}–{found.end}\t{found.probability:.3f}\t{shown}")


def _label_images(labeller: ImageClassifier, files: Iterator[str], as_json: bool) -> None:
    """One line for each image, its name first."""
    named, every = (file for file in files if file.strip()), 0
    while chunk := list(islice(named, LINES_AT_ONCE)):
        every += len(chunk)
        for file, answer in zip(chunk, labeller.predict(chunk), strict=True):
            shown = _show_label(file, answer, as_json, what="image")
            print(shown if as_json else f"{file}\t{shown}")
    if not every:
        raise UserError("There is nothing to look at: no image is named.", hint="name image files: boot.png shirt.jpg")


def _show_label(text: str, answer: object, as_json: bool, what: str = "text") -> str:
    from glassformer.inference import Classification

    assert isinstance(answer, Classification)
    if as_json:
        record = {what: text, "label": answer.label, "probabilities": answer.probabilities}
        return json.dumps(record, ensure_ascii=False)
    shown = "  ".join(f"{label} {probability:.3f}" for label, probability in list(answer.probabilities.items())[:5])
    return f"{answer.label}\t{shown}"


def _show_tags(text: str, answer: object, as_json: bool) -> str:
    assert isinstance(answer, list)
    if as_json:
        return json.dumps({"text": text, "words": [{"word": w, "tag": t} for w, t in answer]}, ensure_ascii=False)
    return " ".join(f"{word}/{tag}" for word, tag in answer)


def _show_filled(text: str, answer: object, as_json: bool) -> str:
    from glassformer.inference import FilledText

    assert isinstance(answer, FilledText)
    if as_json:
        return json.dumps({"text": text, "filled": answer.text, "blanks": answer.blanks}, ensure_ascii=False)
    shown = (" ".join(f"{piece} {chance:.3f}" for piece, chance in blank.items()) for blank in answer.blanks)
    return "\t".join([answer.text, *shown])


def _show_vector(text: str, answer: object, as_json: bool) -> str:
    assert isinstance(answer, list)
    if as_json:
        return json.dumps({"text": text, "vector": answer}, ensure_ascii=False)
    return " ".join(f"{number:.6f}" for number in answer)


def _print_vectors(vectors: ContextualEmbedder, texts: Iterator[str]) -> None:
    """A line of JSON for each text, its words and their vectors; a blank line for a blank one."""
    for text in texts:
        if not text.strip():
            print()
            continue
        found = vectors.in_context(text)
        numbers = [[round(number, 6) for number in vector] for vector in found.mean().tolist()]
        print(json.dumps({"text": text, "words": found.words, "vectors": numbers}, ensure_ascii=False))


def _continue(
    model: TextGenerator, prompts: Iterator[str], length: int | None, sampling: Sampling, as_json: bool
) -> None:
    """Each prompt and what comes after it, as it comes."""
    from glassformer.inference import MAX_NEW_TOKENS

    for prompt in prompts:
        pieces = model.stream(prompt, length=length or MAX_NEW_TOKENS, sampling=sampling)
        if as_json:
            print(json.dumps({"prompt": prompt, "continuation": "".join(pieces)}, ensure_ascii=False))
            continue
        print(prompt, end="", flush=True)
        for piece in pieces:
            print(piece, end="", flush=True)
        print()


def _compose(
    composer: MusicGenerator,
    text: list[str] | None,
    output_file: Path | None,
    bars: int | None,
    sampling: Sampling,
    as_json: bool,
) -> None:
    from glassformer.data.midi import midi_file
    from glassformer.data.music import chord
    from glassformer.files import refuse_folder, writing
    from glassformer.inference import STEPS_PER_BAR

    if output_file is None and not as_json:
        raise UserError("Where should the music go?", hint="name a file: -o piece.mid (or --json for the numbers)")
    if output_file is not None:
        refuse_folder(output_file)
    first = chord(" ".join(text)) if text else None
    steps = composer(first, steps=bars and bars * STEPS_PER_BAR, sampling=sampling)
    if output_file is not None:
        with writing(output_file) as beside:
            beside.write_bytes(midi_file(steps))
        print(f"{output_file}: {len(steps):,} steps, {len(steps) / STEPS_PER_BAR:.1f} bars", file=sys.stderr)
    if as_json:
        print(json.dumps({"steps": steps}))
