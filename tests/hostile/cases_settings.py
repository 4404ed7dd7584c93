"""Settings and options of wrong types and impossible values."""

from __future__ import annotations

from harness import Case
from make_template import TINY

TRAIN = f"train train.en train.fr -o new {TINY}"

VALUES = ("nan", "inf", "-inf", "-1", "1e400", "word", "[1]", "{a=1}", "true", "2020-01-01", "''")
NUMBERS = ("model.d_model", "model.layers", "train.steps", "train.lr", "model.dropout", "decode.length_penalty")
FITTING = {  # the values that are right all the same
    ("decode.length_penalty", "true"),
}
HUGE = {
    "model.layers": (1001, 10**9, 10**30),
    "model.encoder_layers": (10**6,),
    "model.d_model": (10**7, 10**12, 2**63, 10**30),
    "model.d_ff": (10**12, 2**63),
    "model.heads": (10**9,),
    "tokenizer.vocab": (10**9, 2**40),
    "decode.length_penalty": (10.5, 1e300),
    "decode.beam": (65, 10**9),
    "train.seed": (2**63, 10**30),
    "train.label_smoothing": (1, 2),
    "data.max_ratio": (0, 1),
    "data.overlap": (10**9,),
}
TYPES = {
    "train.average": ("0", "1.5", "x"),
    "train.precision": ("fp64", "16", "[]"),
    "train.metric": ("ter", "1"),
    "train.schedule": ("steps",),
    "data.drop_duplicates": ("1", "yes", "'true'"),
    "data.train": ("3", "[3]", "[[3]]", "{a=1}", "x"),
    "data.cache": ("3", "[]"),
    "model.norm": ("middle", "1"),
    "model.family": ("1", "[]", "resnet", "vit"),
    "model.positions": ("rotating",),
    "tokenizer.kind": ("wordpiece", "notes", "imported"),
    "tokenizer.lowercase": ("1",),
    "task": ("1", "chess", "[]", "{a=1}", "music"),
    "format": ("x",),
    "decode": ("1",),
    "model": ("[]",),
}
OPTIONS = {
    "--temperature": ("0", "-1", "nan", "inf", "1e-300", "1e300", "x"),
    "--top-k": ("-1", "x", "1.5"),
    "--top-p": ("0", "nan", "inf", "-1", "1.0001"),
    "--seed": ("x", "1.5"),
    "--beam": ("0", "-1", "65", "nan", "1e3"),
    "--n-best": ("0", "65"),
    "--workers": ("0", "-1", "x"),
    "--shard": ("0/0", "5/4", "a/b", "1", "1/0", "-1/2"),
    "--precision": ("fp16", ""),
}


def _settings() -> list[Case]:
    cases = []
    for name in NUMBERS:
        for value in VALUES:
            if (name, value) not in FITTING:
                cases.append(Case(f"{name}={value}", [*TRAIN.split(), f"{name}={value}"], (name.split(".")[1],)))
    for name, values in HUGE.items():
        for huge in values:
            said_otherwise = name in ("model.d_model", "model.d_ff", "model.heads")  # there is not enough memory
            says = () if said_otherwise else (name.split(".")[1],)
            cases.append(Case(f"{name}={huge:g}"[:60] + f" {len(str(huge))}", [*TRAIN.split(), f"{name}={huge}"], says))
    for name, texts in TYPES.items():
        for text in texts:
            command = ["train", "-o", "new"] if name == "data.train" else TRAIN.split()  # files would be taken instead
            says = {"music": "model.heads", "vit": "model"}.get(text, name.split(".")[-1])
            cases.append(Case(f"{name}={text}", [*command, f"{name}={text}"], (says,)))
    return cases


def _options() -> list[Case]:
    cases = []
    for option, values in OPTIONS.items():
        for value in values:
            sample = ["--sample"] if option in ("--temperature", "--top-k", "--top-p", "--seed") else []
            files = ["-i", "test.en", "-o", "new.fr"] if option == "--shard" else ["hello"]
            argv = ["translate", "run", *files, *sample, f"{option}={value}"]
            cases.append(Case(f"translate {option}={value}", argv, (option.removeprefix("--").split("-")[0],)))
    return cases


OTHERS = [
    ("predict --temperature=1e-300", ["predict", "runs/gpt", "ba", "--temperature=1e-300"], "temperature"),
    ("predict --temperature=nan", ["predict", "runs/gpt", "ba", "--temperature=nan"], "temperature"),
    ("predict --length=0", ["predict", "runs/gpt", "ba", "--length=0"], "--length"),
    ("predict --length=x", ["predict", "runs/gpt", "ba", "--length=x"], "--length"),
    ("predict a question without a text", ["predict", "runs/answers", "one"], "Two texts are needed"),
    ("predict a chord of three", ["predict", "runs/music", "60 60 60", "-o", "x.mid"], "chord"),
    ("predict a chord of words", ["predict", "runs/music", "c e g c", "-o", "x.mid"], "chord"),
    ("predict a chord of huge numbers", ["predict", "runs/music", f"{'9' * 5000} 1 1 1", "-o", "x.mid"], "chord"),
    ("predict a pitch never seen", ["predict", "runs/music", "1 1 1 1", "-o", "x.mid"], "pitch"),
    ("predict music to nowhere", ["predict", "runs/music"], "-o"),
    ("predict music to a folder", ["predict", "runs/music", "-o", "images"], "folder"),
    ("predict with a translator", ["predict", "run", "hello"], "run"),
    ("translate with a tagger", ["translate", "runs/tags", "hello"], "runs/tags"),
    ("evaluate a tagger without a file", ["evaluate", "runs/tags"], "runs/tags"),
    ("evaluate a tagger with references", ["evaluate", "runs/tags", "--source", "test.en"], "runs/tags"),
    ("explain --layer=99", ["explain", "run", "hello", "--layer=99"], "--layer"),
    ("explain --layer=-99", ["explain", "run", "hello", "--layer=-99"], "--layer"),
    ("explain --head=99", ["explain", "run", "hello", "--head=99"], "head"),
    ("explain --head=-1", ["explain", "run", "hello", "--head=-1"], "head"),
    ("explain --kind=x", ["explain", "run", "hello", "--kind=x"], "--kind"),
    ("explain --change=x", ["explain", "run", "hello", "--change=x"], "x"),
    ("explain --change=silence", ["explain", "run", "hello", "--change=silence=encoder.9.self.0"], "encoder"),
    (
        "explain --change=row",
        ["explain", "run", "hello", "--change=row=decoder.0.cross.0.0:nan,1"],
        "not attention weights",
    ),
    ("explain --change=force", ["explain", "run", "hello", "--change=force=x:y"], "force"),
    ("explain --change=force far away", ["explain", "run", "hello", "--change=force=-5:a"], "force"),
    ("explain --compare alone", ["explain", "run", "hello", "--compare"], "--target"),
    ("explain to a folder", ["explain", "run", "hello", "--html", "images"], "images"),
    ("explain to a file below a file", ["explain", "run", "hello", "--svg", "test.en/x.svg"], "test.en"),
    ("explain a question without a text", ["explain", "runs/answers", "when ?"], "--target"),
    ("explain a tagger's target", ["explain", "runs/tags", "ba", "--target", "x"], "--target"),
    ("heads of no translator", ["heads", "runs/gpt"], "runs/gpt"),
    ("heads --most=0", ["heads", "run", "--most=0"], "--most"),
    ("heads of nothing", ["heads", "nowhere"], "nowhere"),
    ("studio --port=99999", ["studio", "run", "--port=99999"], "--port"),
    ("studio --port=x", ["studio", "run", "--port=x"], "--port"),
    ("studio of nothing", ["studio", "nowhere"], "nowhere"),
    ("studio at no address", ["studio", "run", "--no-browser", "--host=999.1.1.1"], "--host"),
    ("studio at a name of odd characters", ["studio", "run", "--no-browser", "--host=a b"], "--host"),
    ("studio at an empty name label", ["studio", "run", "--no-browser", "--host=a..b"], "--host"),
    ("info of nothing", ["info", "nowhere"], "nowhere"),
    ("info of an empty name", ["info", ""], "run"),
    ("info of a name of 5,000 letters", ["info", "x" * 5000], "xxx"),
    ("info of a NUL byte in a name", ["info", "run\x01"], "run"),
    ("ladder --budget=0", ["ladder", "train.en", "train.fr", "--budget=0"], "--budget"),
    ("ladder --budget=nan", ["ladder", "train.en", "train.fr", "--budget=nan"], "--budget"),
    ("ladder --budget=inf", ["ladder", "train.en", "train.fr", "--budget=inf"], "--budget"),
    ("ladder --budget=-1", ["ladder", "train.en", "train.fr", "--budget=-1"], "--budget"),
    ("ladder --only=,", ["ladder", "train.en", "train.fr", "--only=,"], "names no system"),
    ("ladder --only=x", ["ladder", "train.en", "train.fr", "--only=x"], "x"),
    ("ladder of nothing", ["ladder"], "train"),
    ("ladder in a run", ["ladder", "train.en", "train.fr", "-o", "run"], "run"),
    ("ladder of tags", ["ladder", "tags.conllu"], "tags.conllu"),
    ("ablate --only=x", ["ablate", "train.en", "train.fr", "--only=x"], "x"),
    ("ablate --budget=nan", ["ablate", "train.en", "train.fr", "--budget=nan"], "--budget"),
    ("ablate of nothing", ["ablate"], "train"),
    ("bench of x", ["bench", "x"], "x"),
    ("bench without data", ["bench", "train", "--data", "images"], "images"),
    ("bench --rounds=0", ["bench", "train", "--rounds=0"], "--rounds"),
    ("bench --pairs=1", ["bench", "prepare", "--pairs=1"], "--pairs"),
    ("export to x", ["export", "run", "--to", "x", "-o", "new"], "--to"),
    ("export over something", ["export", "run", "--to", "huggingface", "-o", "images"], "images"),
    ("export over a file", ["export", "run", "--to", "huggingface", "-o", "test.en"], "test.en"),
    ("export of nothing", ["export", "nowhere", "--to", "huggingface", "-o", "new"], "nowhere"),
    ("import of nothing", ["import", "nowhere", "-o", "new"], "nowhere"),
    ("import of a file", ["import", "test.en", "-o", "new"], "test.en"),
    ("import of a run", ["import", "run", "-o", "new"], "run"),
    ("import over something", ["import", "run", "-o", "images"], ""),
    ("data get x", ["data", "get", "x"], "x"),
    ("data get --size=-1", ["data", "get", "phrasebook", "-o", "new", "--size=-1"], "sentences"),
    ("data get --size=huge", ["data", "get", "phrasebook", "-o", "new", f"--size={10**12}"], "sentences"),
    ("data get to a file", ["data", "get", "phrasebook", "-o", "test.en"], "test.en"),
    ("data cache in a file", ["data", "cache", "--folder", "test.en"], "test.en"),
    ("data check of nothing", ["data", "check", "nowhere", "train.fr"], "nowhere"),
    ("demo in no language", ["demo", "--language", ""], "--language"),
    ("no such command", ["tarnslate"], "tarnslate"),
    ("an option without a value", ["info", "--json="], "--json"),
    ("a subcommand that is not", ["data", "fetch"], "fetch"),
]

SETTINGS = [*_settings(), *_options(), *(Case(name, argv, (says,)) for name, argv, says in OTHERS)]
