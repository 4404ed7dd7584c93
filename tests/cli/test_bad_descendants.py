"""Wrong input for BERT, GPT and ViT: images, labels, prompts, answers, and folders of other libraries."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import bad as refused
from command_line import good
from PIL import Image
from safetensors.torch import load_file, save_file

from tests.image_folders import write_images

TINY = "model.d_model=16 model.layers=1 train.steps=4 train.validate_every=2"
TEXT = f"{TINY} train.batch_tokens=256 data.sequence=24 tokenizer.vocab=300"
WORDS = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
ROWS = [[WORDS[i % 25], WORDS[(3 * i + 1) % 25], WORDS[i * i % 25], WORDS[i % 7]] for i in range(90)]
ASTRAY = 4  # questions whose answer does not occur in the text


def bad(arguments: str | list[str], *says: str) -> None:
    """Run a command that must be refused without any other output."""
    assert refused(arguments, *says).err.startswith("error: ")


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()


def questions() -> str:
    entries = []
    for number in range(40):
        text = f"the tower of Ana{number % 7} stands since {1900 + number} by the river"
        answer = {"text": "long ago" if number < ASTRAY else str(1900 + number), "answer_start": text.index("19")}
        entries.append({"context": text, "qas": [{"question": "since when ?", "answers": [answer]}]})
    return json.dumps({"data": [{"paragraphs": entries}]})


def tagged(rows: list[list[str]], tag: str) -> str:
    return "\n".join("".join(f"{i}\t{word}\t_\t{tag}{word[1]}\n" for i, word in enumerate(row, 1)) for row in rows)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data that is not all good, and a small run of each family."""
    folder = tmp_path_factory.mktemp("made")
    write_images(folder, 20)
    (folder / "images/cat/empty.png").touch()
    (folder / "images/cat/text.png").write_text("this is a cat\n", encoding="utf-8")
    (folder / "images/dog/cut.png").write_bytes((folder / "images/dog/1.png").read_bytes()[:60])
    contents = {
        "text.txt": "".join(f"{' '.join(row)}\n" for row in ROWS),
        "labels.tsv": "".join(f"{'ba' in row}\t{' '.join(row)} {i}\n" for i, row in enumerate(ROWS)),
        "foreign.tsv": "True\tba be\nperhaps\tbi bo\n",
        "tags.conllu": tagged(ROWS, "V"),
        "foreign.conllu": tagged(ROWS[:2], "X"),
        "qa.json": questions(),
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        good(f"train images -o runs/vit {TINY} model.heads=2 model.d_ff=16 model.patch=4")
        good(f"train text.txt -o runs/gpt model.family=gpt model.positions=learned {TEXT}")
        good(f"train labels.tsv -o runs/labels model.family=bert model.positions=learned model.pooling=first {TEXT}")
        good(f"train tags.conllu -o runs/tags model.family=bert model.positions=learned {TEXT}")
        good(f"train qa.json -o runs/answers model.family=bert model.positions=learned {TEXT}")
    return folder


# Images ----------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("cat/empty.png", "unknown image format"),
        ("cat/text.png", "unknown image format"),
        ("dog/cut.png", "truncated"),
    ],
)
def test_a_file_that_is_no_image(file: str, says: str, workdir: Path) -> None:
    for command in ("predict", "explain"):
        bad(f"{command} runs/vit images/{file}", "image cannot be decoded", says, f"where: images/{file}")
    bad(["predict", "runs/vit", " "], "No image file is given", "boot.png")


def test_undecodable_images_are_skipped_and_counted(workdir: Path) -> None:
    report = good("data check images").out
    assert re.search(r"3 +dropped: the image cannot be decoded", report) and "images/dog/cut.png" in report
    account = json.loads((workdir / "runs/vit/data-report.json").read_text(encoding="utf-8"))
    assert '"the image cannot be decoded": {"count": 3' in json.dumps(account)
    scored = good("evaluate runs/vit images").out
    assert "40 examples" in scored and "3 files could not be read and are left out" in scored
    assert json.loads(good("evaluate runs/vit images --json").out)["unread"] == 3


def test_an_image_of_another_size_is_center_cropped_and_resized(workdir: Path) -> None:
    """The center has the size of the model's images; the pixels around it are cropped and have no effect."""
    middle = Image.open("images/cat/1.png")
    for side in (0, 255):
        wide = Image.new("L", (16, 8), side)
        wide.paste(middle, (4, 0))
        wide.save(f"wide{side}.png")
    middle.convert("RGB").save("coloured.png")
    lines = good("predict runs/vit images/cat/1.png wide0.png wide255.png coloured.png").out.splitlines()
    assert len({line.split("\t", 1)[1] for line in lines}) == 1 and len(lines) == 4


def test_unusable_image_data_is_refused(workdir: Path) -> None:
    Path("images.idx").write_bytes(idx(np.zeros((5, 4, 6), dtype=np.uint8)))
    Path("labels.idx").write_bytes(idx(np.array([1, 2], dtype=np.uint8)))
    for command in ("train images.idx labels.idx -o new", "evaluate runs/vit images.idx labels.idx"):
        bad(
            command,
            "5 images and 2 labels",
            "images.idx and labels.idx",
            "the label file that belongs to this image file",
        )
    shutil.rmtree("images/dog")
    bad("train images -o new", "only one label, 'cat'", "at least two labels")
    for file in Path("images/cat").glob("[0-9]*.png"):
        file.unlink()
    bad("train images -o new", "None of these files can be decoded as an image")
    bad("evaluate runs/vit images", "no labelled examples to evaluate on")
    assert not Path("new").exists()


# Labels, prompts and answers ----------------------------------------


def test_evaluate_refuses_a_label_that_training_did_not_have(workdir: Path) -> None:
    bad("evaluate runs/labels foreign.tsv", "label 'perhaps' does not occur", "False, True", "foreign.tsv:2")
    bad("evaluate runs/tags foreign.conllu", "label 'X", "does not occur", "Va, Ve", "foreign.conllu:1")
    Path("images/bird").mkdir()
    shutil.copy("images/cat/1.png", "images/bird/1.png")
    bad("evaluate runs/vit images", "label 'bird' does not occur", "cat, dog", "images/bird/1.png")


def test_an_empty_prompt_begins_a_line(workdir: Path) -> None:
    written = json.loads(good(["predict", "runs/gpt", "", "--length", "12", "--json"]).out)
    assert written["prompt"] == "" and len(written["continuation"]) >= 6
    assert good(["predict", "runs/gpt", "", "--length", "12"]).out == written["continuation"] + "\n"
    bad(["explain", "runs/gpt", " "], "The text is empty")


def test_a_prompt_longer_than_max_positions_is_truncated_from_the_left(workdir: Path) -> None:
    """The window has 24 tokens. Only the end of a longer prompt has an effect."""
    end, likeliest = " ".join(WORDS * 4), ["--length", "5", "--top-k", "1", "--json"]
    written = [json.loads(good(["predict", "runs/gpt", f"{a} {end}", *likeliest]).out) for a in ("ba", "ku")]
    assert written[0]["continuation"] == written[1]["continuation"] != ""


def test_answers_that_do_not_occur_in_the_text_are_dropped_from_training_only(workdir: Path) -> None:
    """They are dropped from the training set and counted; in a held-out set they count as not found."""
    said = good(f"train qa.json --valid qa.json -o new model.family=bert {TEXT}").err
    assert re.search(rf"{ASTRAY} +dropped: the answer does not occur in the text", said)
    assert "qa.json, question 1  long ago" in said
    report = json.loads((workdir / "new/data-report.json").read_text(encoding="utf-8"))
    assert (report["splits"]["train"]["kept"], report["splits"]["valid"]["kept"]) == (40 - ASTRAY, 40)
    assert json.loads(good("evaluate runs/answers qa.json --json").out)["examples"] == 40


# Other libraries ---------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "train"),
    [
        ("recurrent_encoder", "labels.tsv"),
        ("recurrent_lm", "text.txt model.family=recurrent_lm"),
        ("window", "text.txt model.family=window model.d_hidden=16"),
        ("elmo", "text.txt task=word_vectors"),
    ],
)
def test_a_family_without_a_counterpart_is_not_exported(family: str, train: str, workdir: Path) -> None:
    sizes = TEXT.replace("model.layers=1 ", "") if family == "window" else TEXT
    good(f"train {train} -o new {sizes}")
    bad("export new --to huggingface -o out", f"family {family} cannot be exported", "gpt, bert, transformer, vit")
    assert not Path("out").exists()


def test_a_classifier_with_max_pooling_is_not_exported(workdir: Path) -> None:
    good(f"train labels.tsv -o new model.family=bert model.positions=learned {TEXT}")
    bad("export new --to huggingface -o out", "this model uses max pooling", "model.pooling=first")
    assert not Path("out").exists()


def test_export_and_import_of_bert_gpt_and_vit(workdir: Path) -> None:
    pytest.importorskip("transformers")
    asked = {
        "vit": ["images/cat/1.png", "images/dog/2.png"],
        "labels": ["ba be bi"],
        "tags": ["ba be bi"],
        "answers": ["since when ?", "the tower of Ana stands since 1901"],
        "gpt": ["ba be", "--length", "20", "--top-k", "1"],
    }
    for name, given in asked.items():
        assert "difference of the outputs" in good(f"export runs/{name} --to huggingface -o out/{name}").out
        assert "try it" in good(f"import out/{name} -o again/{name}").out
        answers = [good(["predict", f"{runs}/{name}", *given]).out for runs in ("runs", "again")]
        assert answers[0] == answers[1] != "", name


def test_import_refuses_folders_without_a_supported_model(workdir: Path) -> None:
    pytest.importorskip("transformers")
    good("export runs/vit --to huggingface -o vit")
    config, weights = json.loads(Path("vit/config.json").read_text()), load_file("vit/model.safetensors")

    def spoilt(**over: object) -> None:
        Path("vit/config.json").write_text(json.dumps(config | over))

    bad("import images -o new", "no config.json", "where: images", "save_pretrained")
    bad("import no/where -o new", "no/where")
    bad("import text.txt -o new", "text.txt")
    spoilt(model_type="swin")
    bad("import vit -o new", "model type 'swin' is not supported", "gpt2, bert, marian, pegasus, vit")
    spoilt(num_hidden_layers=2)
    bad("import vit -o new", "The weight vit.encoder.layer.1.", "complete folder")
    spoilt()
    save_file({name: weight for name, weight in weights.items() if name != "classifier.bias"}, "vit/model.safetensors")
    bad("import vit -o new", "The weight classifier.bias is missing")
    Path("vit/config.json").write_text("[1]")
    bad("import vit -o new", "does not contain the settings of a model", "vit/config.json")
    spoilt()
    Path("vit/model.safetensors").unlink()
    bad("import vit -o new", "The weights are missing")
    Path("vit/pytorch_model.bin").write_bytes(pickle.dumps(dict.fromkeys(weights, 1)))
    bad("import vit -o new", "pickled, which can execute code", "safetensors")
    Path("vit/model.safetensors").write_bytes(pickle.dumps(dict.fromkeys(weights, 1)))
    bad("import vit -o new", "not in safetensors format")
    assert not Path("new").exists()
