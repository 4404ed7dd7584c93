"""The command line on BERT and GPT: train, predict, evaluate, explain, export to Hugging Face and import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import bad, good

TINY = "model.d_model=16 model.layers=1 train.steps=6 train.validate_every=3 train.batch_tokens=256 data.sequence=24"
WORDS = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, labelled texts and runs of GPT and of BERT."""
    folder = tmp_path_factory.mktemp("descendants")
    rows = [[WORDS[i % 25], WORDS[(3 * i + 1) % 25], WORDS[i * i % 25], WORDS[i % 7]] for i in range(90)]
    (folder / "text.txt").write_text("".join(f"{' '.join(row)}\n" for row in rows), encoding="utf-8")
    labelled = "".join(f"{'yes' if 'ba' in row else 'no'}\t{' '.join(row)} {i}\n" for i, row in enumerate(rows))
    (folder / "labels.tsv").write_text(labelled, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        good(f"train text.txt -o runs/gpt model.family=gpt model.positions=learned {TINY}")
        good(f"train text.txt -o runs/read task=masked_language_model model.positions=learned {TINY}")
        good("train labels.tsv -o runs/labels --from runs/read train.steps=4 model.dropout=0.1")
    return folder


@pytest.fixture(autouse=True)
def _here(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workdir)


def test_a_prompt_longer_than_the_window_is_continued_from_its_end() -> None:
    prompt = " ".join(WORDS * 6)
    record = json.loads(good(["predict", "runs/gpt", prompt, "--length", "40", "--json"]).out)
    assert record["prompt"] == prompt and record["continuation"]
    bad(["explain", "runs/gpt", prompt], "the model accepts at most 24")
    assert "ba" in good(["explain", "runs/gpt", "ba be bi"]).out.splitlines()[0]


def test_blanks_are_filled() -> None:
    filled, first, second = good(["predict", "runs/read", "ba ___ bi [MASK]"]).out.rstrip("\n").split("\t")
    assert filled.startswith("ba ") and "___" not in filled and len(first.split()) == len(second.split()) == 10
    record = json.loads(good(["predict", "runs/read", "ba ___", "--json"]).out)
    assert record["filled"] == f"ba {next(iter(record['blanks'][0]))}"
    bad(["predict", "runs/read", "ba be"], "There is no blank to fill", "write ___")
    assert "accuracy" in good("evaluate runs/read text.txt").out
    assert json.loads(good("evaluate runs/read labels.tsv --json").out)["examples"] == 90


def test_a_pre_trained_encoder_is_fine_tuned_for_classification() -> None:
    assert good(["predict", "runs/labels", "ba be bi"]).out.split("\t")[0] in ("yes", "no")
    assert "<sos>" in good(["explain", "runs/labels", "ba be bi", "--layer", "0"]).out
    bad(["explain", "runs/labels", "ba be", "--layer", "1"], "There is no encoder layer 1", "use 0 to 0")
    bad(["explain", "runs/labels", "ba", "--target", "be"], "--target is only valid")
    bad("train labels.tsv -o new --from runs/gpt", "another task or other labels: language_model")


def test_a_pre_trained_encoder_is_fine_tuned_for_question_answering() -> None:
    texts = []
    for number, word in enumerate(WORDS):
        asked = {"question": f"who is {word} ?", "answers": [{"text": word, "answer_start": 3}]}
        texts.append({"context": f"we {word} be {number}", "qas": [asked]})
    Path("qa.json").write_text(json.dumps({"data": [{"paragraphs": texts}]}), encoding="utf-8")
    told = good("train qa.json -o runs/asks --from runs/read train.steps=4")
    assert "data.window = 189  (with a question, the 256 positions of the model)" in told.err
    record = json.loads(good(["predict", "runs/asks", "who is ba ?", "we ba be", "--json"]).out)
    assert "we ba be"[record["start"] : record["end"]] == (record["answer"] or "")
    assert "answer: " in good(["explain", "runs/asks", "who is ba ?", "--target", "we ba be"]).out
    bad(
        "train qa.json -o new --from runs/read data.window=200",
        "exceed the maximum length of the model, 256",
        "data.window=189",
    )


def test_export_and_import() -> None:
    pytest.importorskip("transformers")
    assert "difference of the outputs" in good("export runs/gpt --to huggingface -o out/gpt2").out
    assert "try it" in good("import out/gpt2 -o runs/again").out
    command = "ba --length 20 --seed 3 --top-k 1"
    assert good(f"predict runs/again {command}").out == good(f"predict runs/gpt {command}").out
    bad("export runs/gpt --to huggingface -o out/gpt2", "The output folder is not empty")
    bad("export runs/gpt --to onyx -o out/x", "no format 'onyx'", "huggingface")
    bad("export runs/labels --to huggingface -o out/x", "this model uses max pooling", "model.pooling=first")
    bad("import nowhere -o runs/x", "nowhere")
    bad("import runs -o runs/x", "no config.json")
    bad("train text.txt -o new task=vectors", "cannot be trained", "glassformer import")
    assert not (Path("out") / "x").exists() and not (Path("runs") / "x").exists()
