"""The README's examples, taken out of its text, compiled and run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def run(command: list[str], **keywords) -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=300, **keywords
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def cuda_folder() -> Path | None:
    """A CUDA toolkit with the runtime's header, or None."""
    for name in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if name and (Path(name) / "include" / "cuda_runtime_api.h").exists():
            return Path(name)
    return None


def has_gpu() -> bool:
    return (
        shutil.which("nvidia-smi") is not None
        and subprocess.run(["nvidia-smi", "-L"], check=False, capture_output=True).stdout != b""
    )


def compile_c(source: str, folder: Path, root: Path, build_dir: Path, *flags: str) -> Path:
    (folder / "example.c").write_text(source)
    program = folder / "example"
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    library = [f"-L{build_dir}", "-lattnpress", f"-Wl,-rpath,{build_dir}"]
    run(
        [
            "cc",
            *strict,
            f"-I{root}/include",
            "-o",
            str(program),
            str(folder / "example.c"),
            *library,
            *flags,
        ]
    )
    return program


def test_the_readme_has_its_examples():
    assert len(blocks("c")) == 2 and len(blocks("python")) >= 5


def test_c_on_the_cpu(tmp_path, root, build_dir):
    program = compile_c(blocks("c")[0], tmp_path, root, build_dir)
    found = re.fullmatch(r"out\[0\] = (\S+);.* value: (\S+)\n", run([str(program)]))
    assert found and float(found[1]) == pytest.approx(float(found[2]), rel=1e-5)


def test_c_on_the_gpu(tmp_path, root, build_dir):
    """Compiled wherever there is a toolkit, run wherever there is a GPU."""
    cuda = cuda_folder()
    if cuda is None:
        pytest.skip("no CUDA toolkit: cuda_runtime_api.h was not found")
    flags = [f"-I{cuda}/include", f"-L{cuda}/lib64", "-lcudart", f"-Wl,-rpath,{cuda}/lib64"]
    program = compile_c(blocks("c")[1], tmp_path, root, build_dir, *flags)
    if not has_gpu():
        pytest.skip("compiled; no GPU to run it on")
    assert run([str(program)]) == "done\n"


@pytest.mark.parametrize("index", range(len(blocks("python"))))
def test_python(index, root, build_dir):
    example = blocks("python")[index]
    if "torch" in example:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        if not torch.cuda.is_available():
            pytest.skip("no GPU to run it on")
    environment = {
        **os.environ,
        "PYTHONPATH": str(root / "python"),
        "ATTNPRESS_LIBRARY": str(build_dir / "libattnpress.so"),
    }
    out = run([sys.executable, "-c", example], env=environment)
    says = (
        "(1, 128, 8, 72) cpu",
        "[2, 1024, 16, 128]",
        "(1, 128, 8, 64) (1, 128, 8, 64) (1, 128, 8, 64)",
        "(1, 256, 8, 64) (1, 8, 256) (1, 8, 256, 256) cpu_fwd_hdim64_fp32_window",
        "(382, 8, 64) (2, 1, 8, 64)",
        "(2, 1, 8, 64) (2, 8, 1)",
        "(100, 3000)",
    )
    assert out and (index >= len(says) or says[index] in out)


def commands() -> list[str]:
    """Lines of shell blocks that run the tool or the generator, or set their variables; others:
    test_documents.py."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    tool = tuple(f"build/attnpress {word} " for word in ("run", "source", "compile", "cache"))
    return [
        line for line in lines if line.startswith((*tool, ".venv/bin/python", "export ATTNPRESS"))
    ]


def test_emulated_command(root, build_dir):
    """The lines that run kernels without a GPU."""
    if not (build_dir / "attnpress-emulate").exists():
        pytest.skip("attnpress-emulate was not built: it needs clang")
    lines = [line for line in commands() if "emulated" in line]
    assert len(lines) == 3
    for line in lines:
        out = run([str(build_dir / "attnpress"), *shlex.split(line)[1:]], cwd=root)
        assert "held" in out


def test_commands(tmp_path, root, build_dir):
    """Scores, the other families, new head dims, warm images: line by line; build/ is wherever the
    build is, and writes go to a folder of the test."""
    lines = [line for line in commands() if "emulated" not in line]
    families = [line for line in lines if line.startswith("build/attnpress run ")]
    lines = [*families, *(line for line in lines if line not in families)]
    assert families and len(lines) == len(families) + 8
    outputs = []
    environment = {**os.environ}
    for line in lines:
        words = [
            re.sub(r"^build/(?!attnpress$)", f"{tmp_path}/", word).replace(
                ".venv/bin/python", sys.executable
            )
            for word in shlex.split(line)
        ]
        words = [
            str(build_dir / "attnpress") if word == "build/attnpress" else word for word in words
        ]
        if words[0] == "export":
            environment.update(
                word.replace("=build/", f"={tmp_path}/").split("=") for word in words[1:]
            )
            continue
        outputs.append(run(words, cwd=root, env=environment))
    for _ in families:
        assert "check     held" in outputs.pop(0)
    printed, pressed, compiled, paged, sizes, exported, checked = outputs
    stem = "flash_fwd_hdim72_bf16_causal_sm80"
    assert printed == (tmp_path / "pressed" / f"{stem}.cu").read_text()
    assert pressed.strip().endswith(f"{stem}.cu")
    assert re.search(r"^[1-9]\d* kernels for sm_90: ", compiled, flags=re.MULTILINE)
    assert "_paged_" in paged and "sm_90a" in sizes
    assert int(exported.split()[0]) == len(list((tmp_path / "my-layer").glob("*.entry"))) > 0
    assert re.search(r"^[1-9]\d* kernels for sm_90: 0 compiled, ", checked, flags=re.MULTILINE)
