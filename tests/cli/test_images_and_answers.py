"""The command line on images and questions: train, predict, explain, evaluate, and wrong input."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from command_line import bad, good
from PIL import Image

from tests.image_folders import write_images

TINY = "model.d_model=16 train.steps=4 train.validate_every=2"
TEXT = "The tower of Ana stands since 1901 by the river."


def questions(count: int) -> str:
    entries = []
    for number in range(count):
        text = TEXT.replace("1901", str(1900 + number)).replace("Ana", f"Ana{number % 7}")
        answer = {"text": str(1900 + number), "answer_start": text.index("19")}
        entries.append({"context": text, "qas": [{"question": "Since when ?", "answers": [answer]}]})
    return json.dumps({"data": [{"paragraphs": entries}]})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images/ and qa.json, and a small run of each in `runs/`."""
    folder = tmp_path_factory.mktemp("made")
    write_images(folder, 20)
    (folder / "images/cat/broken.png").write_bytes(b"\x89PNG nothing more")
    (folder / "qa.json").write_text(questions(40), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        said = good(f"train images -o runs/images {TINY} model.heads=2 model.d_ff=16 model.layers=1")
        assert re.search(r"task = image_classification  \(a folder holds images", said.err)
        assert "dropped: the image cannot be decoded" in said.err and "cat/broken.png" in said.err
        said = good(f"train qa.json -o runs/answers {TINY}")
        assert re.search(r"task = question_answering  \(.*holds questions about texts", said.err)
        assert '"unit": "images"' in (folder / "runs/images/log.jsonl").read_text(encoding="utf-8")
        assert '"unit": "predictions"' in (folder / "runs/answers/log.jsonl").read_text(encoding="utf-8")
    return folder


def test_images_are_labelled_whatever_their_size(workdir: Path) -> None:
    Image.new("RGB", (50, 30), (200, 10, 90)).save("large.jpg")
    lines = good("predict runs/images images/cat/1.png large.jpg").out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["images/cat/1.png", "large.jpg"]
    record = json.loads(good("predict runs/images large.jpg --json").out)
    assert record["image"] == "large.jpg" and record["label"] in ("cat", "dog")
    assert sum(record["probabilities"].values()) == pytest.approx(1)
    assert good("predict runs/images large.jpg").out.startswith(f"large.jpg\t{record['label']}\t")
    (workdir / "list.txt").write_text("images/dog/2.png\nlarge.jpg\n")
    assert good("predict runs/images -i list.txt").out.count("\n") == 2
    assert not (workdir / "runs/images/tokenizer.json").exists()


def test_explain_shows_the_attention_of_the_class_token(workdir: Path) -> None:
    out = good("explain runs/images images/cat/1.png --layer 0").out
    assert "attention of the class token" in out and re.search(r"predicted label: (cat|dog)", out)
    assert "█" in out and "the class token itself has" in out
    record = json.loads(good("explain runs/images images/cat/1.png --json --html a.html").out)
    assert record["written"][0] in ("cat", "dog") and record["source"][:3] == ["<class>", "1,1", "1,2"]
    assert "All tensors" in Path("a.html").read_text(encoding="utf-8")
    bad("explain runs/images images/cat/1.png --layer 3", "no encoder layer 3", "0 to 0")


def test_images_are_scored(workdir: Path) -> None:
    record = json.loads(good("evaluate runs/images images --json").out)
    assert record["examples"] == 40 and 0 <= record["accuracy"] <= 100
    assert "glassformer predict RUN image.png" in (workdir / "runs/images/README.md").read_text(encoding="utf-8")
    assert good("data check images").out.count("cat") >= 2


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("predict runs/images missing.png", ("missing.png",)),
        ("predict runs/images images/cat/broken.png", ("image cannot be decoded", "broken.png")),
        ("predict runs/images images", ("This is a folder",)),
        ("predict runs/images qa.json", ("image cannot be decoded: unknown image format",)),
        ("train empty -o new", ("contains no images", "images/cat/1.png")),
        ("train one -o new", ("only one label, 'cat'",)),
        ("train images --valid other -o new", ("label 'bird' does not occur", "other/bird/1.png", "cat, dog")),
        ("evaluate runs/images other", ("label 'bird' does not occur",)),
        ("train images -o new model.patch=3", ("patch = 3 does not divide an image of 8×8", "1, 2, 4, 8")),
        ("train images -o new tokenizer.vocab=400", ("has no tokenizer: leave out tokenizer.*",)),
        ("train images -o new model.family=transformer", ("cannot be used for task=image_classification: use vit",)),
        ("train images task=translation -o new", ("This is a folder",)),
    ],
)
def test_mistakes_with_images_are_explained(command: str, says: tuple[str, ...], workdir: Path) -> None:
    Path("empty").mkdir()
    for name in ("one/cat", "other/bird"):
        Path(name).mkdir(parents=True)
        shutil.copy("images/cat/1.png", f"{name}/1.png")
    bad(command, *says)
    assert not Path("new").exists()


def test_predict_prints_answers_with_their_positions(workdir: Path) -> None:
    answer, place, probability, around = (
        good(["predict", "runs/answers", "Since when ?", TEXT]).out.rstrip().split("\t")
    )
    start, end = map(int, place.split("–"))
    assert TEXT[start:end] == answer and f"[{answer}]" in around and 0 <= float(probability) <= 1
    record = json.loads(good(["predict", "runs/answers", "Since when ?", TEXT, "--json"]).out)
    assert (record["answer"], record["start"], record["end"]) == (answer, start, end)
    lines = f"Since when ?\t{TEXT}\nWho ?\t{TEXT}\n".encode()
    assert good("predict runs/answers", lines).out.count("\n") == 2
    assert good("predict runs/answers -i qa.json --json").out.count("\n") == 40


def test_explain_shows_the_attention_around_the_answer(workdir: Path) -> None:
    out = good(["explain", "runs/answers", "Since when ?", "--target", TEXT]).out
    assert "Since" in out and "answer: " in out and "> " in out
    record = json.loads(good(["explain", "runs/answers", "Since when ?", "--target", TEXT, "--json"]).out)
    assert record["attention"][0]["kind"] == "question" and record["written"][0] in TEXT and record["next"] == []
    good(["explain", "runs/answers", "Since when ?", "--target", TEXT, "--html", "a.html"])
    assert "Attention of the text to the question" in Path("a.html").read_text(encoding="utf-8")
    bad("explain runs/answers When", "A question needs a text", "--target")


def test_evaluate_prints_the_baseline_of_question_answering(workdir: Path) -> None:
    record = json.loads(good("evaluate runs/answers qa.json --json").out)
    assert record["examples"] == 40 and {"f1", "exact_match", "baseline_f1"} <= record.keys()
    assert "baseline: the better of" in record["signature"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["predict", "runs/answers", "When ?"], ("Two texts are needed", "1 given", '"the question" "the text"')),
        (["predict", "runs/answers", "When ?", " "], ("The text is empty",)),
        (["train", "lost.json", "-o", "new"], ("There are no questions",)),
        (["train", "qa.json", "-o", "new", "data.overlap=300"], ("overlap = 300", "must be smaller")),
        (["train", "qa.json", "-o", "new", "tokenizer.kind=notes"], ("tokenizer.kind=notes is only valid for music",)),
        (["train", "astray.json", "-o", "new"], ("too few different examples to hold out a validation set: 0",)),
    ],
)
def test_mistakes_with_questions_are_explained(command: list[str], says: tuple[str, ...], workdir: Path) -> None:
    Path("lost.json").write_text('{"data": []}', encoding="utf-8")
    Path("astray.json").write_text(questions(3).replace('"text": "19', '"text": "never 19'), encoding="utf-8")
    bad(command, *says)
    bad("predict runs/answers", "This line has no tab", "standard input:1", stdin=b"When?\n")
