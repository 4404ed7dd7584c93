"""Every command with valid input: its output, the files it writes, and their order."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import sacrebleu
from command_line import TINY, bad, glassformer, good

COMMANDS = [
    "demo",
    "train",
    "translate",
    "predict",
    "evaluate",
    "explain",
    "heads",
    "studio",
    "info",
    "ladder",
    "ablate",
    "data check",
    "data get",
    "data diversify",
    "data cache",
]
EVENTS = {"note", "started", "progress", "validated", "saved", "finished", "tested"}
LEARNING = (
    "model.layers=1 model.d_model=32 model.heads=2 model.d_ff=64 model.dropout=0.0 tokenizer.vocab=500 "
    "train.steps=150 train.validate_every=150 train.lr=0.01 train.warmup=30 decode.max_length=25"
)


def settings_of(run: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((run / "run.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def learned(trained_folder: Path, made_once: Callable[..., Path]) -> Path:
    """A run with enough training to give different outputs for different lines."""

    def train(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(trained_folder)
            good(f"train train.en train.fr --valid valid.en valid.fr -o {folder}/learned {LEARNING}")

    return made_once("learned_folder", train) / "learned"


@pytest.fixture
def sources(trained_folder: Path) -> list[str]:
    return (trained_folder / "train.en").read_text(encoding="utf-8").splitlines()[:23]


class TestTrain:
    def test_train_writes_all_files_of_the_run_folder(self, workdir: Path) -> None:
        run = workdir / "run"
        assert {path.name for path in run.iterdir()} == {
            "model.safetensors",
            "tokenizer.json",
            "run.toml",
            "README.md",
            "data-report.json",
            "log.jsonl",
            "shortlist.json",
            "checkpoints",
        }
        assert {path.name for path in (run / "checkpoints/step-5").iterdir()} == {
            "model.safetensors",
            "optimizer.safetensors",
            "state.json",
            "checksums.json",
        }
        kinds = {path.suffix for path in run.rglob("*") if path.is_file()}
        assert kinds == {".safetensors", ".json", ".jsonl", ".toml", ".md"}

    def test_the_model_card_has_the_scores_of_evaluate(self, workdir: Path) -> None:
        card = (workdir / "run/README.md").read_text(encoding="utf-8")
        found = json.loads(good("evaluate run --source test.en --reference test.fr --json").out)
        (row,) = (line for line in card.splitlines() if line.startswith("| test | 10 |"))
        assert f" {found['bleu']:.2f} | {found['chrf']:.2f} | {found['exact_match']:.2f} |" in row
        assert f"`{found['bleu_signature']}`" in card
        assert "train: 186 examples from `train.en`, `train.fr`" in card

    def test_the_log_is_a_list_of_typed_events(self, workdir: Path) -> None:
        events = [json.loads(line) for line in (workdir / "run/log.jsonl").read_text(encoding="utf-8").splitlines()]
        assert {event["event"] for event in events} <= EVENTS
        kinds = [event["event"] for event in events if event["event"] != "note"]
        assert kinds == ["started", "validated", "saved", "finished", "tested", "tested"]
        assert [event["split"] for event in events if event["event"] == "tested"] == ["valid", "test"]
        times = [event["time"] for event in events]
        assert times == sorted(times)
        (finished,) = (event for event in events if event["event"] == "finished")
        assert (finished["step"], finished["reason"]) == (5, "steps")

    def test_the_data_report_counts_every_pair(self, workdir: Path) -> None:
        report = json.loads((workdir / "run/data-report.json").read_text(encoding="utf-8"))
        assert report["pairs"] == {"train": 186, "valid": 4, "test": 10}
        assert report["train"]["read"] == report["train"]["kept"] == 186

    def test_train_json_reports_the_result(self, workdir: Path) -> None:
        result = good(f"train train.en train.fr -o new --test test.en test.fr --json {TINY}")
        end = json.loads(result.out)
        assert end.keys() == {"run", "reason", "step", "seconds", "valid", "test"}
        assert (end["run"], end["reason"], end["step"]) == ("new", "steps", 5)
        assert end["test"].keys() == {"loss", "bleu", "chrf", "exact_match", "signature"}
        assert "18 of the 186 training pairs were held out" in result.err

    def test_train_without_output_folder_chooses_a_new_one(self, workdir: Path) -> None:
        for name in ("runs/en-fr", "runs/en-fr-2"):
            assert good(f"train train.en train.fr {TINY}").out.splitlines()[0] == name
            assert settings_of(workdir / name)["data"]["train"] == ["train.en", "train.fr"]
        pairs = zip(*((workdir / f"train.{side}").read_text().splitlines() for side in ("en", "ko")), strict=True)
        (workdir / "korean.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
        assert good(f"train korean.tsv {TINY}").out.splitlines()[0] == "runs/korean"

    def test_recipe_paths_are_relative_to_it_and_overrides_win(
        self, workdir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sections: dict[str, list[str]] = {"train": ["steps = 3", "lr = 0.125"]}
        for setting in TINY.split():
            section, _, rest = setting.partition(".")
            if rest.partition("=")[0] != "steps":
                sections.setdefault(section, []).append(rest)
        text = 'task = "translation"\n[data]\ntrain = ["train.en", "train.fr"]\nvalid = ["valid.en", "valid.fr"]\n'
        for section, values in sections.items():
            text += "\n".join([f"[{section}]", *values, ""])
        (workdir / "recipe.toml").write_text(text)
        elsewhere = workdir.parent / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        good("train ../workdir/recipe.toml -o plain")
        good("train ../workdir/recipe.toml train.steps=2 -o over")
        plain, over = (settings_of(elsewhere / name) for name in ("plain", "over"))
        assert (plain["train"]["steps"], over["train"]["steps"]) == (3, 2)
        assert plain["train"]["lr"] == over["train"]["lr"] == 0.125
        assert plain["model"] == over["model"]
        assert plain["model"]["encoder_layers"] == plain["model"]["decoder_layers"] == 1
        tokenizers = {(path / "tokenizer.json").read_bytes() for path in (workdir / "run", elsewhere / "plain")}
        assert len(tokenizers) == 1, "the recipe read other text than the files beside it"

    @pytest.mark.parametrize("form", ["shards", "tsv", "jsonl", "gz"])
    def test_every_file_format_of_the_same_text_gives_the_same_model(self, workdir: Path, form: str) -> None:
        english, french = ((workdir / f"train.{side}").read_text().splitlines() for side in ("en", "fr"))
        pairs = list(zip(english, french, strict=True))
        files = {"shards": ["part*.en", "part*.fr"], "gz": ["train.en.gz", "train.fr.gz"]}.get(form, [f"all.{form}"])
        for side, lines in (("en", english), ("fr", french)):
            for part, chunk in enumerate((lines[:100], lines[100:])):
                (workdir / f"part{part}.{side}").write_text("".join(f"{line}\n" for line in chunk))
            (workdir / f"train.{side}.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
        (workdir / "all.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
        records = ({"source": source, "target": target} for source, target in pairs)
        (workdir / "all.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        held_out = ["--valid", "valid.en", "valid.fr", "--test", "test.en", "test.fr"]
        if form == "tsv":  # one file holds both sides
            valid = ((workdir / f"valid.{side}").read_text().splitlines() for side in ("en", "fr"))
            (workdir / "valid.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in zip(*valid, strict=True)))
            held_out[1:3] = ["valid.tsv"]
        good(["train", *files, *held_out, "-o", "new", *TINY.split()])
        for name in ("tokenizer.json", "model.safetensors"):
            assert (workdir / "new" / name).read_bytes() == (workdir / "run" / name).read_bytes()

    def test_from_starts_with_the_weights_and_the_tokenizer(self, workdir: Path, learned: Path) -> None:
        steps = "train.steps=1 train.validate_every=1 train.lr=1e-9 decode.max_length=25"
        good(f"train train.en train.fr --valid valid.en valid.fr --from {learned} -o child {steps}")
        assert (workdir / "child/tokenizer.json").read_bytes() == (learned / "tokenizer.json").read_bytes()
        assert settings_of(workdir / "child")["model"] == settings_of(learned)["model"]
        ask = ["--beam", "1", "-i", "valid.en"]
        assert good(["translate", "child", *ask]).out == good(["translate", str(learned), *ask]).out

    def test_resume_with_more_steps_continues_training(self, workdir: Path) -> None:
        result = good("train -o run --resume train.steps=8 --json")
        assert json.loads(result.out)["step"] == 8
        assert settings_of(workdir / "run")["train"]["steps"] == 8
        assert (workdir / "run/checkpoints/step-8/optimizer.safetensors").exists()


class TestTranslate:
    def test_lines_stay_in_order(self, workdir: Path, learned: Path, sources: list[str]) -> None:
        """Lines are batched by length; the outputs must be in the order of the input."""
        alone = [good(["translate", str(learned), "--beam", "1", line]).out for line in sources]
        assert len(set(alone)) > 5, "a model that says the same to everything cannot show an order"
        assert good(["translate", str(learned), "--beam", "1", *sources]).out == "".join(alone)

    def test_empty_lines_stay_empty_lines(self, workdir: Path, sources: list[str]) -> None:
        lines = ["", sources[0], "  ", sources[1], ""]
        out = good("translate run", stdin="".join(f"{line}\n" for line in lines).encode()).out.split("\n")
        assert [bool(line) for line in out] == [False, True, False, True, False, False]

    def test_plain_files_gzip_files_and_standard_input_agree(self, workdir: Path) -> None:
        text = (workdir / "test.en").read_bytes()
        (workdir / "test.en.gz").write_bytes(gzip.compress(text))
        shown = good("translate run", stdin=text).out
        assert shown.count("\n") == 10
        assert good("translate run -i test.en").out == shown
        assert good("translate run -i test.en.gz").out == shown
        assert good("translate run -i test.en -o out.fr").out == ""
        assert (workdir / "out.fr").read_text(encoding="utf-8") == shown

    def test_n_best_is_sorted_by_score(self, workdir: Path, learned: Path, sources: list[str]) -> None:
        out = good(["translate", str(learned), "--n-best", "3", "--scores", *sources[:2]]).out
        rows = [line.split("\t") for line in out.splitlines()]
        assert len(rows) == 6
        for scores in ([float(score) for score, _ in rows[:3]], [float(score) for score, _ in rows[3:]]):
            assert scores == sorted(scores, reverse=True)
            assert all(score < 0 for score in scores)
        assert len({text for _, text in rows[:3]}) == 3
        best = good(["translate", str(learned), *sources[:2]]).out.splitlines()
        assert [rows[0][1], rows[3][1]] == best

    def test_minimum_bayes_risk_reorders_the_candidates(self, workdir: Path, learned: Path, sources: list[str]) -> None:
        by_score, by_risk = (
            good(["translate", str(learned), "--n-best", "12", *mbr, sources[0]]).out.splitlines()
            for mbr in ([], ["--mbr"])
        )
        assert sorted(by_score) == sorted(by_risk)
        assert by_score != by_risk
        assert good(["translate", str(learned), "--mbr", sources[0]]).out.splitlines() == by_risk[:1]
        scored = good("evaluate run --source test.en --reference test.fr --mbr --json").out
        assert json.loads(scored)["sentences"] == 10

    def test_json_has_source_translation_and_score(self, workdir: Path, learned: Path, sources: list[str]) -> None:
        out = good(["translate", str(learned), "--json", "--n-best", "2", sources[0], ""]).out
        first, empty = (json.loads(line) for line in out.splitlines())
        assert first.keys() - {"warnings"} == {"source", "translation", "score", "n_best"}
        assert first["source"] == sources[0]
        assert first["n_best"][0] == {"translation": first["translation"], "score": first["score"]}
        assert first["n_best"][0]["score"] >= first["n_best"][1]["score"]
        assert (empty["source"], empty["translation"]) == ("", "")

    def test_sampling_depends_on_the_seed(self, workdir: Path) -> None:
        drawn = [good(f"translate run --sample --seed {seed} -i test.en").out for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]

    def test_warnings_name_the_line(self, workdir: Path, learned: Path, sources: list[str]) -> None:
        result = good(["translate", str(learned), "--beam", "1", sources[0], "word " * 999])
        assert re.search(r"^warning: line 2: too long for one pass, translated in \d+ parts$", result.err, re.MULTILINE)


# Translates a file in small windows, and is killed when so many lines are written.
KILLED = """
import os, signal, sys
from glassformer import files
from glassformer.inference import translator
from glassformer.cli import main
translator.STREAM_LINES = 4
write, left = files.ResumableFile.write, 6
def dying(self, text):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, text)
files.ResumableFile.write = dying
sys.argv = ["glassformer", *sys.argv[1:]]
main()
"""


class TestTranslateFiles:
    @pytest.mark.parametrize("how", ["--beam 2", "--sample --seed 3"])
    def test_a_killed_translation_resumes_without_losing_or_repeating_a_line(
        self, workdir: Path, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        monkeypatch.setattr("glassformer.inference.translator.STREAM_LINES", 4)
        command = f"translate run -i test.en -o out.fr {how}"
        killed = subprocess.run([sys.executable, "-c", KILLED, *command.split()], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert not (workdir / "out.fr").exists()
        assert "resuming after line 4\n" in good(command).err
        good(f"translate run -i test.en -o whole.fr {how}")
        assert (workdir / "out.fr").read_bytes() == (workdir / "whole.fr").read_bytes()
        assert not list(workdir.glob(".out*"))

    def test_other_options_start_the_translation_again(self, workdir: Path) -> None:
        command = "translate run -i test.en -o out.fr"
        killed = subprocess.run([sys.executable, "-c", KILLED, *command.split()], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert "resuming" not in good(f"{command} --scores").err
        assert all("\t" in line for line in (workdir / "out.fr").read_text(encoding="utf-8").splitlines())

    def test_shards_concatenate_to_the_whole_output(self, workdir: Path) -> None:
        good("translate run -i test.en -o whole.fr")
        for number in (1, 2, 3):
            good(f"translate run -i test.en -o out.fr --shard {number}/3")
        parts = [(workdir / f"out.fr.{number}-of-3").read_text(encoding="utf-8") for number in (1, 2, 3)]
        assert [part.count("\n") for part in parts] == [3, 3, 4]
        assert "".join(parts) == (workdir / "whole.fr").read_text(encoding="utf-8")

    def test_shard_needs_input_and_output_files(self, workdir: Path) -> None:
        refused = glassformer("translate run --shard 1/2 hello")
        assert refused.code == 2
        assert "add -i FILE -o FILE" in refused.err


class TestEvaluate:
    def test_json_has_the_documented_keys_and_the_score_of_sacrebleu(self, workdir: Path, learned: Path) -> None:
        told = good(f"evaluate {learned} --source train.en --reference train.fr --beam 1 -o out.fr --json")
        record = json.loads(told.out)
        assert record.keys() >= {
            "bleu",
            "bleu_signature",
            "chrf",
            "sentences",
            "seconds",
            "output_tokens_per_second",
        }
        outputs, references = ((workdir / name).read_text().splitlines() for name in ("out.fr", "train.fr"))
        assert record["sentences"] == len(outputs) == 186
        assert record["bleu"] == pytest.approx(sacrebleu.corpus_bleu(outputs, [references]).score, abs=1e-3)
        assert record["bleu"] > 5
        assert record["chrf"] == pytest.approx(sacrebleu.corpus_chrf(outputs, [references]).score, abs=1e-3)
        assert "tok:13a" in record["bleu_signature"] and "nrefs:1" in record["bleu_signature"]
        assert record["seconds"] > 0 and record["output_tokens_per_second"] > 0

    def test_several_references_are_each_read_by_its_option(self, workdir: Path) -> None:
        lines = (workdir / "test.fr").read_text().splitlines()
        (workdir / "other.fr").write_text("".join(f"{line[::-1]}\n" for line in lines))
        record = json.loads(good("evaluate run --source test.en --reference test.fr --reference other.fr --json").out)
        assert "nrefs:2" in record["bleu_signature"]
        (workdir / "other.fr").write_text("one line\n")
        refused = bad("evaluate run --source test.en --reference test.fr --reference other.fr")
        assert "different numbers of lines: 10 and 1" in refused.err and "other.fr" in refused.err

    def test_the_signature_states_case_and_tokenizer(self, workdir: Path) -> None:
        out = good("evaluate run --source test.en --reference test.fr --lowercase --tokenize char").out
        assert "case:lc" in out and "tok:char" in out
        assert "10 sentences" in out

    def test_evaluate_translates_like_translate(self, workdir: Path) -> None:
        good("evaluate run --source test.en --reference test.fr -o out.fr")
        assert (workdir / "out.fr").read_text() == good("translate run -i test.en").out


class TestInfoAndExplain:
    def test_info_prints_settings_scores_and_state(self, workdir: Path) -> None:
        record = json.loads(good("info run --json").out)
        assert record.keys() == {"run", "settings", "finished", "last", "engine", "engine_reason"}
        assert record["settings"]["model"]["d_model"] == 16
        assert record["finished"] is True
        assert record["last"]["finished"]["step"] == 5
        assert record["last"]["tested test"]["examples"] == 10
        shown = good("info run").out
        assert "d_model = 16" in shown and "run: finished" in shown and "MB of weights" in shown

    def test_info_shows_the_speed_in_the_unit_of_the_log(self, workdir: Path) -> None:
        started = {"event": "started", "parameters": 7, "unit": "images"}
        progress = {"event": "progress", "step": 10, "epoch": 0, "loss": 1.5, "tokens_per_second": 366.2}
        with (workdir / "run/log.jsonl").open("a", encoding="utf-8") as log:
            log.writelines(f"{json.dumps(event)}\n" for event in (started, progress))
        assert "loss 1.5, 366 images/s" in good("info run").out

    def test_info_says_when_a_run_is_not_finished(self, workdir: Path) -> None:
        (workdir / "run/README.md").unlink()
        assert json.loads(good("info run --json").out)["finished"] is False
        assert "glassformer train -o run --resume" in good("info run").out

    def test_explain_draws_a_row_for_every_token(self, workdir: Path, learned: Path) -> None:
        out = good(["explain", str(learned), "I am a student", "--target", "Je suis"]).out
        grid = out.split("\n\n")[0].splitlines()
        assert "".join(grid[0].split()).lstrip("▁") == "Iamastudent<eos>"
        written = [row.split()[0] for row in grid[1:]]
        assert "".join(written[:-1]).lstrip("▁") == "Jesuis"
        own = good(["explain", str(learned), "I am a student", "--layer", "0"]).out
        assert own.splitlines()[0].split() == grid[0].split()


class TestData:
    def test_get_writes_three_languages_line_by_line(self, workdir: Path) -> None:
        out = good("data get phrasebook --size 60 -o small").out
        assert "try it: glassformer train small/train.en small/train.fr" in out
        counts = {path.name: len(path.read_text().splitlines()) for path in (workdir / "small").iterdir()}
        assert set(counts) == {f"{split}.{side}" for split in ("train", "valid", "test") for side in ("en", "fr", "ko")}
        assert counts["train.en"] == counts["train.fr"] == counts["train.ko"]
        assert sum(counts.values()) == 3 * 60

    def test_check_reports_what_train_would_drop(self, workdir: Path) -> None:
        lines = (workdir / "train.en").read_text().splitlines()
        (workdir / "train.en").write_text("".join(f"{line}\n" for line in ["", *lines[1:]]))
        report = json.loads(good("data check train.en train.fr --valid valid.en valid.fr --json").out)
        assert (report["train"]["read"], report["train"]["kept"]) == (186, 185)
        (example,) = report["train"]["dropped"]["empty"]["examples"]
        assert (example["file"], example["line"]) == ("train.en", 1)
        shown = good("data check train.en train.fr").out
        assert "186 pairs read, 185 kept, 1 dropped" in shown and "train.en:1" in shown


class TestDiversify:
    def test_adds_the_translations_of_both_sides(self, workdir: Path, learned: Path, sources: list[str]) -> None:
        targets = (workdir / "train.fr").read_text(encoding="utf-8").splitlines()[:23]
        (workdir / "some.en").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        (workdir / "some.fr").write_text("".join(f"{line}\n" for line in targets), encoding="utf-8")
        good(f"train train.fr train.en --valid valid.fr valid.en -o back {TINY}")
        good(f"data diversify some.en some.fr --forward {learned} --backward back -o more")
        sides = [(workdir / "more" / name).read_text(encoding="utf-8") for name in ("train.en", "train.fr")]
        pairs = list(zip(*(side.splitlines() for side in sides), strict=True))
        forward = good(f"translate {learned} -i some.en").out.splitlines()
        backward = good("translate back -i some.fr").out.splitlines()
        translated = [*zip(sources, forward, strict=True), *zip(backward, targets, strict=True)]
        expected = dict.fromkeys([*zip(sources, targets, strict=True), *translated])
        assert pairs == [pair for pair in expected if all(pair)]
        bad(f"data diversify some.en some.fr --forward {learned} -o more", "exists already")

    def test_refuses_a_run_of_the_other_direction(self, workdir: Path, learned: Path) -> None:
        bad(f"data diversify train.en train.fr --backward {learned} -o more", "from .en to .fr", "--forward")
        bad("data diversify train.en train.fr -o more", "No run was given")

    def test_refuses_an_empty_corpus(self, workdir: Path, learned: Path) -> None:
        for name in ("blank.en", "blank.fr"):
            (workdir / name).write_text("\n\n")
        bad(f"data diversify blank.en blank.fr --forward {learned} -o more", "no pairs", "data check")

    def test_refuses_a_run_of_other_languages_and_a_file_as_the_folder(self, workdir: Path, learned: Path) -> None:
        bad(f"data diversify train.en train.ko --forward {learned} -o more", "from .en to .fr, not from .en to .ko")
        bad(f"data diversify train.en train.fr --forward {learned} -o train.en/more", "is a file", "train.en/more")


class TestBenchRuns:
    def test_keeps_a_table_and_learning_curves_of_finished_runs(self, workdir: Path, learned: Path) -> None:
        page = workdir / "results" / "quality.md"
        good(f"bench runs {learned} --save results")
        page.write_text("Before.\n" + page.read_text(encoding="utf-8") + "After.\n", encoding="utf-8")
        good(f"bench runs run {learned} --save results")
        text = page.read_text(encoding="utf-8")
        assert text.startswith("Before.") and text.endswith("After.\n")
        assert text.count("| `learned` |") == text.count("| `run` |") == 1
        tested = json.loads((learned / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])
        assert f" {tested['scores']['bleu']:.2f} |" in text
        assert (workdir / "results" / "quality" / "learning-curves.svg").exists()

    def test_refuses_a_run_that_is_not_finished(self, workdir: Path) -> None:
        log = (workdir / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        (workdir / "run" / "log.jsonl").write_text("".join(log[:3]), encoding="utf-8")
        bad("bench runs run", "not finished", "--resume")
        (workdir / "run" / "log.jsonl").unlink()  # as in an imported run
        bad("bench runs run", "no log of its training", "log.jsonl")

    def test_refuses_runs_that_the_table_could_not_tell_apart(self, workdir: Path) -> None:
        shutil.copytree(workdir / "run", workdir / "other" / "run")
        bad("bench runs run other/run", "same name", "other/run", "rename")

    def test_adds_the_table_to_a_page_without_one(self, workdir: Path) -> None:
        page = workdir / "results" / "quality.md"
        page.parent.mkdir()
        page.write_text("# Mine\n", encoding="utf-8")
        for _ in range(2):
            good("bench runs run --save results")
            text = page.read_text(encoding="utf-8")
            assert text.startswith("# Mine\n") and text.count("| `run` |") == 1
        (workdir / "results/quality/runs.json").write_text('[{"name": 1}]', encoding="utf-8")
        bad("bench runs run --save results", "not a table of runs", "runs.json", "delete it")


class TestCache:
    def test_data_cache_lists_and_clears_entries(self, workdir: Path) -> None:
        good(f"train train.en train.fr -o kept {TINY} data.cache=prepared")
        assert sorted(name.partition("-")[0] for name in self.kept()) == ["ids", "text", "vocabulary"]
        shown = good("data cache --folder prepared").out
        assert " MB  ids-" in shown and "MB in total" in shown
        good("data cache --folder prepared --clear")
        assert self.kept() == {}
        good(f"train -o kept --resume {TINY} train.steps=6")  # it is prepared anew
        assert len(self.kept()) == 2  # the tokenizer is the run's own

    def kept(self) -> dict[str, float]:
        return json.loads(good("data cache --folder prepared --json").out)["megabytes"]

    def test_an_unwritable_cache_folder_is_reported(self, workdir: Path) -> None:
        (workdir / "file").write_text("in the way")
        result = glassformer(f"train train.en train.fr -o kept {TINY} data.cache=file/below")
        assert result.code == 2 and "data.cache=" in result.err and "file/below" in result.err
        assert not (workdir / "kept").exists()


class TestSeveralCorpora:
    def test_a_corpus_with_a_weight_is_trained_on_and_resumed(self, workdir: Path) -> None:
        recipe = (
            '[data]\ntrain = ["train.en", "train.fr"]\nvalid = ["valid.en", "valid.fr"]\n'
            'also = [{train = ["test.en", "test.fr"], weight = 2.5}]\n'
        )
        (workdir / "recipe.toml").write_text(recipe, encoding="utf-8")
        good(["train", "recipe.toml", "-o", "both", *TINY.split()])
        good(["train", "-o", "both", "--resume", "train.steps=9"])
        also = settings_of(workdir / "both")["data"]["also"]
        assert [other["weight"] for other in also] == [2.5]
        report = json.loads((workdir / "both/data-report.json").read_text(encoding="utf-8"))
        alone = json.loads((workdir / "run/data-report.json").read_text(encoding="utf-8"))
        assert report["pairs"]["train"] > alone["pairs"]["train"]
        assert "test.en" in (workdir / "both/README.md").read_text(encoding="utf-8")


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_an_example(self, command: str) -> None:
        for flag in ("--help", "-h"):
            shown = good(f"{command} {flag}").out
            assert f"Example: glassformer {command}" in " ".join(shown.split())

    def test_the_list_of_commands_is_this_one(self) -> None:
        shown = good("--help").out
        for command in COMMANDS:
            assert re.search(rf"\b{command.split()[0]}\b", shown)

    def test_the_version_is_that_of_the_package(self) -> None:
        assert good("--version").out == f"glassformer {version('glassformer')}\n"

    def test_no_command_at_all_shows_the_help(self) -> None:
        result = glassformer([])
        assert "translate" in result.out + result.err
        assert "Traceback" not in result.err


def test_unknown_words_are_reported_once(workdir: Path) -> None:
    lines = b"The zzyzx sleeps.\nThe zzyzx and the qwrtz sleep.\n"
    found = good("translate run", stdin=lines)
    assert found.err.count("notice: ") == 1
    assert "not in the model's vocabulary: zzyzx (z z y z x), qwrtz (" in found.err
    assert "words and subwords" in found.err and "notice" not in found.out
    first, second = map(json.loads, good("translate run --json", stdin=lines).out.splitlines())
    assert (first["unknown_words"], second["unknown_words"]) == (["zzyzx"], ["zzyzx", "qwrtz"])
    known = good("translate run --json", stdin=b"The cat is small.\n")
    assert "unknown_words" not in json.loads(known.out) and "notice" not in known.err


def test_explain_reports_unknown_words(workdir: Path) -> None:
    explained = good(["explain", "run", "The zzyzx sleeps."])
    assert explained.err.count("notice: ") == 1 and "zzyzx" in explained.err
    asked = good(["explain", "run", "The zzyzx sleeps.", "--json"])
    assert json.loads(asked.out)["unknown_words"] == ["zzyzx"] and "notice" not in asked.err
