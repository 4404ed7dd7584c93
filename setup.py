"""Compile the native engine when the package is built, and make the package page. Everything else is in pyproject.toml.

GLASSFORMER_BUILD_ENGINE=1 makes a missing or failing C compiler an error (wheels for a platform), and =0 leaves the
engine out (the wheel for every platform). By default the package is built without the engine if it cannot be compiled.
Then the engine is compiled when it is first used, or everything runs in PyTorch.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent / "glassformer" / "engine"))
import build  # needs the standard library alone

REPOSITORY = "https://github.com/glassformer/glassformer"
WITH_ENGINE = os.environ.get("GLASSFORMER_BUILD_ENGINE", "")
if WITH_ENGINE not in ("", "0", "1"):
    sys.exit(f"GLASSFORMER_BUILD_ENGINE={WITH_ENGINE}: write 0 (without the engine) or 1 (with it)")


class BuildEngine(build_ext):
    """Build the shared library, which is loaded by ctypes and is no Python module."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")[:-1]) / build.library_name())

    def build_extension(self, ext: Extension) -> None:
        try:
            build.compile_library(Path(self.get_ext_fullpath(ext.name)))
        except build.CompilerError as error:
            if WITH_ENGINE == "1":
                sys.exit(f"the native engine is not built: {error}")
            self.warn(f"the native engine is not built: {error}")

    def copy_extensions_to_source(self) -> None:
        """Copy the library into the source tree (editable installation), if it was built."""
        for extension in self.extensions:
            built = Path(self.build_lib) / self.get_ext_filename(self.get_ext_fullname(extension.name))
            if built.exists():
                self.copy_file(str(built), str(Path("glassformer") / "engine" / built.name))


class PlatformWheel(bdist_wheel):
    """One wheel per platform: the library does not use Python's C interface, so every version of Python can load it."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


def package_page() -> str:
    """Return README.md with absolute links: a package index shows it without the files that it links to."""
    readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    readme = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\g<1>{REPOSITORY}/raw/main/", readme)  # images
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:)", rf"\g<1>{REPOSITORY}/blob/main/", readme)


setup(
    long_description=package_page(),
    long_description_content_type="text/markdown",
    ext_modules=[] if WITH_ENGINE == "0" else [Extension("glassformer.engine.library", sources=[], optional=True)],
    cmdclass={"build_ext": BuildEngine, "bdist_wheel": PlatformWheel},
)
