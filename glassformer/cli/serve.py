"""The command `glassformer serve`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.arguments import EngineOption, PrecisionOption, WorkersOption, known_engine, known_precision
from glassformer.cli.listening import address_of, listen
from glassformer.errors import UserError

if TYPE_CHECKING:
    from glassformer.inference.search_engine import EngineName, Precision
    from glassformer.serving.keys import KeyStore
    from glassformer.serving.options import ServeOptions

PORT = 5000  # LibreTranslate's
DEFAULT_RATE = 600  # requests per minute for other machines


RunsArgument = Annotated[list[str], typer.Argument(metavar="RUN …", help="run folders; RUN=en-de states the languages")]
PortOption = Annotated[int | None, typer.Option(min=0, max=65535, help=f"port (default: {PORT} or the next free one)")]
HostOption = Annotated[str, typer.Option(help="address to listen on; 127.0.0.1 allows only this machine")]
LanguagesOption = Annotated[
    str | None, typer.Option(help="languages of a single RUN, such as en:de (default: from its training files)")
]
QueueOption = Annotated[int, typer.Option(min=1, help="sentences that may wait; more are answered with 429")]
KeysOption = Annotated[
    Path | None, typer.Option(help="file of API keys, which every request then needs (see glassformer keys)")
]
InsecureOption = Annotated[bool, typer.Option("--insecure", help="allow other machines without API keys")]
RateOption = Annotated[
    int | None,
    typer.Option(min=0, help=f"per key or address, 0 for no limit (default: 0; for other machines {DEFAULT_RATE})"),
]
NamesOption = Annotated[
    list[str] | None, typer.Option(help="name of this server in addresses, such as translate.example.org")
]
CorsOption = Annotated[
    list[str] | None, typer.Option(help="web page that may use the service, such as https://example.org")
]
ProxyOption = Annotated[str, typer.Option(help="address of a proxy whose X-Forwarded-For header names the client")]
BodyOption = Annotated[int, typer.Option(min=1, help="largest request, in bytes")]
CharactersOption = Annotated[int, typer.Option(min=1, help="largest request, in characters")]
SentenceOption = Annotated[int, typer.Option(min=1, help="longest sentence, in characters")]
TokensOption = Annotated[int, typer.Option(min=1, help="longest completion, in tokens")]
TimeoutOption = Annotated[float, typer.Option(min=0.1, help="time limit of a request, in seconds")]
DrainOption = Annotated[float, typer.Option(min=0, help="seconds to finish requests after SIGTERM")]
DelayOption = Annotated[float, typer.Option(min=0, help="seconds to keep serving after SIGTERM, with /ready at 503")]
LogTextOption = Annotated[bool, typer.Option("--log-text", help="write the texts of users into the log")]


def serve(
    runs: RunsArgument,
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    languages: LanguagesOption = None,
    workers: WorkersOption = None,
    precision: PrecisionOption = "fp32",
    engine: EngineOption = "auto",
    queue_size: QueueOption = 1024,
    keys: KeysOption = None,
    insecure: InsecureOption = False,
    requests_per_minute: RateOption = None,
    host_name: NamesOption = None,
    cors: CorsOption = None,
    trusted_proxy: ProxyOption = "",
    max_body: BodyOption = 4 * 2**20,
    max_characters: CharactersOption = 50_000,
    max_sentence: SentenceOption = 2_000,
    max_tokens: TokensOption = 2_048,
    timeout: TimeoutOption = 60.0,
    drain: DrainOption = 30.0,
    ready_delay: DelayOption = 0.0,
    log_text: LogTextOption = False,
) -> None:
    """Serve models over HTTP: LibreTranslate's and OpenAI's interfaces, and one with scores and word alignment.

    Example: glassformer serve runs/en-de

    Several models: glassformer serve runs/en-de runs/de-en runs/shakespeare

    For other machines: glassformer keys add laptop, then glassformer serve runs/en-de --host 0.0.0.0

    SIGTERM finishes the running requests, SIGHUP loads the models again.
    """
    _require_packages()
    from glassformer.serving.options import Limits, ServeOptions

    rate = _requests_per_minute(requests_per_minute, host)
    limits = Limits(
        max_body, max_characters, max_sentence, tokens=max_tokens, seconds=timeout, requests_per_minute=rate
    )
    folders, pairs = _models(runs, languages)
    options = ServeOptions(
        limits,
        pairs,
        _key_store(keys, host, insecure=insecure),
        host_names=frozenset(name.lower() for name in host_name or []),
        origins=frozenset(origin.rstrip("/") for origin in cors or []),
        log_text=log_text,
        drain_seconds=drain,
        ready_delay=ready_delay,
    )
    how = known_precision(precision), known_engine(engine)
    _run(folders, workers or os.cpu_count() or 1, how, queue_size, options, (host, port), trusted_proxy)


def _run(
    folders: dict[str, Path],
    workers: int,
    how: tuple[Precision, EngineName],
    queue_size: int,
    options: ServeOptions,
    address: tuple[str, int | None],
    trusted_proxy: str,
) -> None:
    from glassformer.serving.pool import Pool
    from glassformer.serving.server import run_server

    precision, engine = how
    pool = Pool(folders, workers=workers, precision=precision, engine=engine, queue_size=queue_size)
    listening = listen(*address, default=PORT)
    print(f"the service is running at {address_of(address[0], listening)}  (Ctrl-C stops it)", flush=True)
    run_server(pool, options, listening, trusted_proxies=trusted_proxy)


def _require_packages() -> None:
    """Raise a UserError if a package is missing."""
    for package in ("fastapi", "uvicorn", "python_multipart", "prometheus_client", "py3langid"):
        if find_spec(package) is None:
            raise UserError(
                f"The service needs the package {package}, which is not installed.",
                hint='pip install "glassformer[serve]"',
            )


def _requests_per_minute(given: int | None, host: str) -> int:
    from glassformer.serving.options import is_loopback

    return given if given is not None else 0 if is_loopback(host) else DEFAULT_RATE


def _key_store(path: Path | None, host: str, *, insecure: bool) -> KeyStore | None:
    """Return the keys that requests need: of --keys, of the environment, or of the usual file for other machines."""
    from glassformer.serving.keys import ENVIRONMENT, KeyStore, default_path
    from glassformer.serving.options import is_loopback, refuse_open_address

    secret = os.environ.get(ENVIRONMENT)
    if path is None and not is_loopback(host) and default_path().exists():
        path = default_path()
    has_keys = path is not None or bool(secret)
    refuse_open_address(host, has_keys=has_keys, insecure=insecure, keys_file=default_path())
    if not has_keys:
        return None
    store = KeyStore(path, secret)
    if not store.keys:
        raise UserError("The file of the API keys has no key.", where=str(path), hint="glassformer keys add NAME")
    return store


def _models(runs: list[str], languages: str | None) -> tuple[dict[str, Path], dict[str, tuple[str, str]]]:
    """Return the folder of each model by name, and the languages that were given."""
    from glassformer.inference.run_folder import RunFolder, read_settings
    from glassformer.serving.languages import parse_pair

    folders: dict[str, Path] = {}
    pairs: dict[str, tuple[str, str]] = {}
    for run in runs:
        path, equals, pair = run.rpartition("=") if not Path(run).exists() else (run, "", "")
        folder = Path(path or run)
        name = folder.resolve().name
        if name in folders:
            raise UserError(f"Two runs have the name {name}.", where=run, hint="rename one of the folders")
        read_settings(RunFolder(folder))  # report a wrong folder immediately
        folders[name] = folder
        if equals:
            pairs[name] = parse_pair(pair, run)
    if languages is not None:
        if len(folders) != 1:
            raise UserError("--languages is for one RUN.", where="--languages", hint="write RUN=en-de for each")
        pairs = dict.fromkeys(folders, parse_pair(languages, "--languages"))
    return folders, pairs
