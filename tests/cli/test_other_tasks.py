"""The command line on every task but translation: train, predict, evaluate, info, and wrong input."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from command_line import bad, good

TINY = "model.d_model=16 train.steps=6 train.validate_every=3 train.batch_tokens=256"
WORDS = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of every kind and a small run of each, in `runs/`."""
    folder, dice = tmp_path_factory.mktemp("tasks"), random.Random(1)
    rows = [dice.choices(WORDS, k=dice.randint(1, 9)) for _ in range(140)]
    tagged = ("".join(f"{i}\t{word}\t_\tV{word[1]}\n" for i, word in enumerate(row, 1)) for row in rows)
    pieces = [[[60 + (i + j) % 5, 55, 50, 40] for i in range(20)] for j in range(14)]
    contents = {
        "labels.tsv": "".join(f"{'yes' if 'ba' in row else 'no'}\t{' '.join(row)}\n" for row in rows),
        "tags.conllu": "\n".join(tagged),
        "text.txt": "".join(f"{' '.join(row)}\n" for row in rows),
        "music.json": json.dumps(pieces),
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in contents:
            good(f"train {name} -o runs/{name.partition('.')[0]} {TINY} {'train.lr=0.01'}")
        good(f"train text.txt --valid text.txt -o runs/letters tokenizer.kind=characters model.family=window {TINY}")
        good(f"train text.txt --valid text.txt -o runs/vectors task=word_vectors {TINY}")
    return folder


def test_train_prints_its_choices_with_reasons(workdir: Path) -> None:
    for name, task, why in (
        ("labels.tsv", "classification", "the first column of the .tsv has few distinct values"),
        ("tags.conllu", "tagging", "words with their tags"),
        ("text.txt", "language_model", "running text"),
        ("music.json", "music", "pieces of music"),
    ):
        result = good(f"train {name} -o again-{task} {TINY}")
        assert re.search(rf"task = {task}  \(.*{re.escape(why)}", result.err)
        assert "try it: glassformer predict" in result.out
        assert f'task = "{task}"' in (workdir / f"again-{task}/run.toml").read_text(encoding="utf-8")
    card = (workdir / "again-classification/README.md").read_text(encoding="utf-8")
    assert "glassformer predict RUN" in card and "accuracy" in card and "beam" not in card
    assert json.loads((workdir / "again-tagging/labels.json").read_text(encoding="utf-8"))[0] == "Va"


def test_labels_with_probabilities(workdir: Path) -> None:
    label, shown = good(["predict", "runs/labels", "ba be bi"]).out.rstrip("\n").split("\t")
    assert label in ("yes", "no") and shown.startswith(label)
    (workdir / "in.txt").write_text("ba be\n\nbi bo\n", encoding="utf-8")
    lines = good("predict runs/labels -i in.txt --json").out.split("\n")
    assert json.loads(lines[0])["text"] == "ba be" and lines[1] == ""
    assert sum(json.loads(lines[2])["probabilities"].values()) == pytest.approx(1)
    assert good("predict runs/labels", b"ba be\n\nbi bo\n").out.count("\n") == 3


def test_tagged_words(workdir: Path) -> None:
    out = good(["predict", "runs/tags", "ba be, bi."]).out
    assert re.fullmatch(r"ba/V\w be/V\w ,/V\w bi/V\w \./V\w\n", out)
    record = json.loads(good(["predict", "runs/tags", "ba be", "--json"]).out)
    assert [word["word"] for word in record["words"]] == ["ba", "be"]


def test_a_continuation_depends_on_the_seed(workdir: Path) -> None:
    command = "predict runs/letters ba --length 30"
    one = good(command).out
    assert one.startswith("ba") and len(one) >= 30
    assert good(command).out == one != good(f"{command} --seed 2").out
    assert json.loads(good(f"{command} --json").out)["continuation"] == one.removeprefix("ba").removesuffix("\n")
    assert len(set(good(f"{command} --top-k 1").out)) <= 12
    assert good(["predict", "runs/text", "", "--length", "5"]).out  # an empty prompt: a new line begins


def test_predict_writes_a_midi_file(workdir: Path) -> None:
    good(["predict", "runs/music", "60 55 50 40", "-o", "piece.mid", "--length", "2"])
    content = (workdir / "piece.mid").read_bytes()
    assert content.startswith(b"MThd\0\0\0\6\0\1\0\5") and content.count(b"MTrk") == 5
    steps = json.loads(good(["predict", "runs/music", "60,55,50,40", "--json", "--length", "2"]).out)["steps"]
    assert steps[0] == [60, 55, 50, 40] and len(steps) == 32
    steps = json.loads(good(["predict", "runs/music", "--json"]).out)["steps"]
    assert 8 * 16 <= len(steps) <= 32 * 16  # the model ends the piece, but not at once
    bad("predict runs/music", "There is no output file for the music", "-o piece.mid")
    bad(["predict", "runs/music", "C major", "-o", "a.mid"], "chord is not valid", "67 62 59 43")
    bad(["predict", "runs/music", "60 55 50 99", "-o", "a.mid"], "pitch 99 is not in the vocabulary")


def test_vectors_of_a_word_in_two_contexts(workdir: Path) -> None:
    said = good(["explain", "runs/vectors", "ba be bi", "ba be bo"]).out.splitlines()
    assert said[0].split() == ["word", "embedding", "layer", "1", "→", "layer", "1", "←"]
    (ba, be), left, right = said[1:], 5, 6
    for line in (ba, be):  # the left context is the same in both texts, the right context is not
        assert line.split()[left] == "0.000" and float(line.split()[right]) > 0
    (record,) = map(
        json.loads, good(["explain", "runs/vectors", "bi ba", "Ba", "--word", "ba", "--json"]).out.split("\n")[:-1]
    )
    assert (record["one"], record["other"]) == ([1, 2], [2, 1]) and record["distances"]["embedding"] > 0
    found = json.loads(good(["predict", "runs/vectors", "ba be.", "--json"]).out)
    assert found["words"] == ["ba", "be", "."] and [len(vector) for vector in found["vectors"]] == [32] * 3
    assert good("predict runs/vectors --json", b"ba\n\nbe\n").out.split("\n")[1] == ""
    bad(["predict", "runs/vectors", "ba be"], "only printed as JSON", "--json")
    assert good(["explain", "runs/vectors", "ba be", "--html", "a.html"]).out == ""
    assert '"name":"backwards.0.hidden_state"' in (workdir / "a.html").read_text(encoding="utf-8")
    bad(["explain", "runs/vectors", "ba", "be"], "No word occurs more than once")
    bad(["explain", "runs/vectors", "ba ba", "--word", "do"], "'do' does not occur more than once")
    bad(["explain", "runs/vectors", "ba", ""], "The text is empty")
    bad(["explain", "runs/text", "ba", "ba"], "only valid for word vectors")
    bad("train text.txt -o x model.family=elmo", "set task=contextual_embeddings")


@pytest.mark.parametrize(
    ("run", "file", "score"),
    [
        ("labels", "labels.tsv", "accuracy"),
        ("tags", "tags.conllu", "accuracy"),
        ("text", "text.txt", "perplexity"),
        ("music", "music.json", "nats_per_note"),
        ("vectors", "text.txt", "backwards_loss"),
    ],
)
def test_evaluate_and_info(run: str, file: str, score: str, workdir: Path) -> None:
    found = json.loads(good(f"evaluate runs/{run} {file} --json").out)
    assert found[score] > 0 and found["examples"] in (140, 14)
    assert score.replace("_", " ") in good(f"evaluate runs/{run} {file}").out
    assert "finished" in good(f"info runs/{run}").out
    assert "read" in good(f"data check {file}").out


def test_a_swapped_file_is_evaluated_by_its_labels(workdir: Path) -> None:
    rows = [line.split("\t") for line in (workdir / "labels.tsv").read_text(encoding="utf-8").splitlines()]
    (workdir / "swapped.tsv").write_text("".join(f"{text}\t{label}\n" for label, text in rows), encoding="utf-8")
    assert good("evaluate runs/labels swapped.tsv").out == good("evaluate runs/labels labels.tsv").out


def test_the_wrong_command_names_the_right_one(workdir: Path, trained_folder: Path) -> None:
    bad(
        f"predict {trained_folder}/run hello",
        "A run of task=translation is used with translate",
        f"glassformer translate {trained_folder}/run",
    )
    bad(
        f"evaluate {trained_folder}/run text.txt",
        "scored against reference translations",
        "--source FILE --reference FILE",
    )
    bad("translate runs/labels hello", "its task is classification", "glassformer predict runs/labels")
    bad("explain runs/labels hello", "This model has no attention", "--html")
    bad("explain runs/labels hello --target bonjour", "--target is only valid for translation")
    bad("evaluate runs/labels --source a --reference b", "A run of task=classification", "evaluate runs/labels FILE")
    bad("evaluate runs/labels", "A run of task=classification", "evaluate runs/labels FILE")
    bad("predict runs/labels hello --temperature 0.5", "task=classification does not sample")
    bad("predict runs/labels hello -o out.txt", "-o is not valid for task=classification")
    bad("predict runs/labels hello -i text.txt", "Both TEXT and -i were given")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"", ("a.txt is empty",)),
        ("a.txt", b"\n\n\n", ("There is no text", "a.txt")),
        ("a.txt", b"one line\n", ("too few different examples to hold out", "--valid")),
        ("a.txt", b"one\ntwo \0 three\n", ("NUL byte", "a.txt:2")),
        ("a.tsv", b"yes\tone\nyes\ttwo\nyes\tthree\n" * 9, ("only one label, 'yes'", "at least two labels")),
        ("a.conllu", b"1\tI\tI\tPRON\n2\tam\tbe\n", ("not CoNLL-U: 2 am be", "a.conllu:2")),
        ("a.conllu", b"# nothing\n", ("no labelled examples", "a.conllu")),
        ("a.json", b"[[[60, 55, 52, 300]]]", ("step is not a list", "piece 1, step 1")),
        ("a.json", b'{"source": "a"}', ("does not have the format of SQuAD", "paragraphs")),
    ],
)
def test_bad_data_is_refused_with_its_location(name: str, content: bytes, says: tuple[str, ...], workdir: Path) -> None:
    (workdir / name).write_bytes(content)
    bad(f"train {name} -o new", *says)
    assert not (workdir / "new").exists()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            "train labels.tsv task=classification model.family=transformer",
            ("cannot be used for task=classification", "recurrent_encoder"),
        ),
        ("train text.txt model.family=recurrent", ("cannot be used for task=language_model", "recurrent_lm, window")),
        ("train text.txt task=clasification", ("there is no task 'clasification'", "translation")),
        ("train pairs.tsv task=classification", ("Neither column looks like labels", "task=translation")),
        ("train labels.tsv --valid foreign.tsv", ("label 'maybe' does not occur", "foreign.tsv:2", "no, yes")),
        ("train text.txt tokenizer.kind=notes", ("tokenizer.kind=notes is only valid for music", "tokenizer.kind=bpe")),
        ("train music.json tokenizer.kind=bpe", ("tokenizer.kind=bpe is not valid for music", "leave it out")),
        ("train text.txt data.sequence=0", ("data.sequence = 0", "greater than 0")),
        ("train labels.tsv --valid text.tsv", ("no labelled examples to evaluate on", "text.tsv")),
        ("evaluate runs/labels text.tsv", ("no labelled examples to evaluate on", "text.tsv")),
        ("evaluate runs/tags blank.conllu", ("no labelled examples to evaluate on", "blank.conllu")),
        ("evaluate runs/labels foreign.tsv", ("label 'maybe' does not occur", "foreign.tsv:2")),
    ],
)
def test_a_mistake_is_explained(command: str, says: tuple[str, ...], workdir: Path) -> None:
    (workdir / "foreign.tsv").write_text("yes\tba\nmaybe\tbe\n", encoding="utf-8")
    (workdir / "text.tsv").write_text("no tab\n\n", encoding="utf-8")
    (workdir / "blank.conllu").write_text("# nothing\n\n", encoding="utf-8")
    (workdir / "pairs.tsv").write_text("".join(f"word {i}\tmot {i}\n" for i in range(50)), encoding="utf-8")
    bad(f"{command}{' -o new' if command.startswith('train') else ''}", *says)


def test_an_empty_text_has_no_label(workdir: Path) -> None:
    bad(["predict", "runs/labels", "  "], "The text is empty")
    bad(["predict", "runs/tags", ""], "The text is empty")
    bad("predict runs/labels", "is empty (0 lines)")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "labels are missing"),
        ("[", "labels is damaged"),
        ('{"yes": 1}', "labels are damaged"),
        ('["a", "b", "c"]', "labels.json has 3 labels, but the model has 2 classes"),
    ],
)
def test_missing_and_foreign_labels_json_are_refused(content: str | None, says: str, workdir: Path) -> None:
    labels = workdir / "runs/labels/labels.json"
    labels.unlink() if content is None else labels.write_text(content, encoding="utf-8")
    bad("predict runs/labels hello", says, "runs/labels/labels.json")
