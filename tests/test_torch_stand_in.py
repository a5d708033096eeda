"""Standing in for flash-attn: the finder, its metadata, the script runner, the wheel, the folder
for Hugging Face's kernels. Each in a process of its own."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import attnpress

ROOT = Path(__file__).resolve().parent.parent
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)
needs_alone = pytest.mark.skipif(
    importlib.util.find_spec("flash_attn") is not None, reason="a flash-attn is installed"
)
pytestmark = needs_alone


needs_names = pytest.mark.skipif(
    sys.version_info < (3, 10), reason="importlib.metadata has no packages_distributions"
)


def python(*arguments: str, path: tuple[Path, ...] = (), **environment: str):
    folders = os.pathsep.join(str(folder) for folder in (*path, ROOT / "python"))
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": folders, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def printed(*arguments: str, **options) -> str:
    done = python(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


METADATA = """
from importlib import metadata
from importlib.util import find_spec
print(metadata.version("flash-attn"), metadata.distribution("flash_attn").metadata["Name"])
print(metadata.packages_distributions()["flash_attn"], find_spec("flash_attn") is not None)
print(metadata.packages_distributions()["flash_attn_2_cuda"])
"""
SHOWN = "2.8.3+attnpress flash-attn\n['flash-attn'] True\n['flash-attn']\n"


@needs_names
def test_finder_gives_modules_and_metadata_and_says_so_once():
    code = f"import attnpress.as_flash_attn, attnpress.as_flash_attn as a\na.install()\n{METADATA}"
    done = python("-c", code)
    assert done.stdout == SHOWN, done.stderr
    assert done.stderr == f"attnpress {attnpress.__version__} stands in for flash-attn 2.8.3\n"


@needs_names
def test_finder_goes_away_again():
    code = """
import sys
import attnpress.as_flash_attn as stand_in
from importlib import metadata, util
stand_in.remove()
stand_in.remove()
print(util.find_spec("flash_attn"), "flash-attn" in {d.name for d in metadata.distributions()})
"""
    assert printed("-c", code) == "None False\n"


def real(tmp_path: Path) -> Path:
    """A folder with what looks like flash-attn installed."""
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn" / "__init__.py").write_text("__version__ = '2.7.4'\n")
    info = tmp_path / "flash_attn-2.7.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.7.4\n")
    return tmp_path


def test_installed_flash_attn_is_left_alone_unless_forced(tmp_path):
    folder = real(tmp_path)
    code = "import attnpress.as_flash_attn\nfrom importlib import metadata\n" + (
        "print(metadata.version('flash-attn'))"
    )
    done = python("-c", code, path=(folder,))
    assert done.returncode != 0
    assert "ImportError" in done.stderr and "flash-attn 2.7.4 is installed" in done.stderr
    assert "ATTNPRESS_AS_FLASH_ATTN=force" in done.stderr
    done = python("-c", code, path=(folder,), ATTNPRESS_AS_FLASH_ATTN="force")
    assert done.stdout == "2.8.3+attnpress\n", done.stderr
    assert "although flash-attn 2.7.4 is installed" in done.stderr
    # The module alone, and the module imported.
    for name in ("METADATA",):
        (folder / "flash_attn-2.7.4.dist-info" / name).unlink()
    (folder / "flash_attn-2.7.4.dist-info").rmdir()
    done = python("-c", code, path=(folder,))
    assert done.returncode != 0 and str(folder) in done.stderr
    done = python("-c", f"import flash_attn\n{code}", path=(folder,))
    assert done.returncode != 0 and "is imported" in done.stderr


def test_namespace_of_another_package_is_no_flash_attn(tmp_path):
    """FlashAttention-4 installs flash_attn/cute alone: it stays importable."""
    (tmp_path / "flash_attn" / "cute").mkdir(parents=True)
    (tmp_path / "flash_attn" / "cute" / "__init__.py").write_text("here = True\n")
    code = "import attnpress.as_flash_attn\nfrom importlib import metadata\n" + (
        "print(metadata.version('flash-attn'))"
    )
    assert printed("-c", code, path=(tmp_path,)) == "2.8.3+attnpress\n"
    if importlib.util.find_spec("torch") is not None:
        code = "import attnpress.as_flash_attn\nfrom flash_attn.cute import here\nprint(here)"
        assert printed("-c", code, path=(tmp_path,)) == "True\n"


def test_runner(tmp_path):
    script = tmp_path / "script.py"
    (tmp_path / "beside.py").write_text("word = 'beside'\n")
    script.write_text(
        "import sys\nfrom importlib import metadata\nimport beside\n"
        "print(__name__, metadata.version('flash-attn'), sys.argv[1:], beside.word)\n"
    )
    wanted = "__main__ 2.8.3+attnpress ['--force', 'b'] beside\n"
    assert printed("-m", "attnpress.run", str(script), "--force", "b") == wanted
    found = printed("-m", "attnpress.run", "-m", "script", "--force", "b", path=(tmp_path,))
    assert found == wanted
    folder = real(tmp_path)
    done = python("-m", "attnpress.run", str(script), path=(folder,))
    assert done.returncode == 1 and done.stderr.startswith("attnpress.run: attnpress does not")
    done = python("-m", "attnpress.run", "--force", str(script), path=(folder,))
    assert done.returncode == 0 and "2.8.3+attnpress" in done.stdout
    done = python("-m", "attnpress.run", str(tmp_path / "none.py"))
    assert done.returncode == 1 and "there is no" in done.stderr
    done = python("-m", "attnpress.run", "-m", "none.of_it")
    assert done.returncode == 1 and done.stderr.endswith("there is no module none.of_it\n")
    assert python("-m", "attnpress.run").returncode == 2


@needs_names
def test_wheel_is_well_formed_the_same_each_time_and_shows_the_metadata(tmp_path):
    assert "\n  shim         a wheel" in printed("-m", "attnpress", "--help")
    path = Path(printed("-m", "attnpress", "shim", "--out", str(tmp_path / "a")).strip())
    assert path.name == "flash_attn-2.8.3+attnpress-py3-none-any.whl"
    again = Path(printed("-m", "attnpress", "shim", "--out", str(tmp_path / "b")).strip())
    assert path.read_bytes() == again.read_bytes()
    installed = tmp_path / "site"
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(installed)
        listed = wheel.read("flash_attn-2.8.3+attnpress.dist-info/RECORD").decode().splitlines()
        assert sorted(line.split(",")[0] for line in listed) == sorted(wheel.namelist())
        for line in listed:
            name, digest, size = line.split(",")
            data = wheel.read(name)
            if digest:
                sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
                assert digest == f"sha256={sha.rstrip('=')}" and int(size) == len(data)
    assert printed("-c", METADATA, path=(installed,)) == SHOWN
    # With it there, standing in is done.
    done = python("-c", f"import attnpress.as_flash_attn\n{METADATA}", path=(installed,))
    assert done.stdout == SHOWN and done.stderr == ""


USES = """
import torch
import flash_attn, flash_attn_2_cuda
from flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
from flash_attn.bert_padding import pad_input, unpad_input, index_first_axis
from flash_attn.flash_attn_interface import _flash_attn_forward, _wrapped_flash_attn_backward
from flash_attn.flash_attn_interface import flash_attn_gpu, _flash_attn_varlen_backward
from flash_attn.layers.rotary import RotaryEmbedding, apply_rotary_emb_func
from flash_attn.losses.cross_entropy import CrossEntropyLoss
from flash_attn.ops.rms_norm import RMSNorm
from flash_attn.ops.triton.layer_norm import rms_norm_fn
from flash_attn.ops.triton.rotary import apply_rotary
from flash_attn_2_cuda import varlen_bwd
q = torch.ones(1, 4, 2, 8)
assert bool((flash_attn_func(q, q, q) == 1).all()) and flash_attn_gpu.fwd
print(flash_attn.__version__, RotaryEmbedding.__module__)
"""


@needs_torch
@pytest.mark.parametrize("way", ["finder", "wheel"])
def test_what_clients_import_is_there(tmp_path, way):
    first = "import attnpress.as_flash_attn\n" if way == "finder" else ""
    if way == "wheel":
        wheel = printed("-m", "attnpress", "shim", "--out", str(tmp_path)).strip()
        zipfile.ZipFile(wheel).extractall(tmp_path)
    found = printed("-c", first + USES, path=(tmp_path,))
    assert found == "2.8.3+attnpress flash_attn.layers.rotary\n"


def test_folder_for_hugging_face(tmp_path):
    folder = Path(printed("-m", "attnpress", "hf-kernel", "--out", str(tmp_path / "k")).strip())
    for backend in ("cuda", "cpu"):
        variant = folder / "build" / f"torch-{backend}"
        metadata = json.loads((variant / "metadata.json").read_text())
        assert metadata["backend"] == {"type": backend} and metadata["python-depends"] == []
        assert metadata["name"] == "flash-attn"
        compile((variant / "__init__.py").read_text(), "kernel", "exec")
    cached = printed("-m", "attnpress", "hf-kernel", ATTNPRESS_CACHE_DIR=str(tmp_path / "cache"))
    assert cached.startswith(str(tmp_path / "cache" / "hf-kernel" / f"{attnpress.__version__}-"))
    done = python("-m", "attnpress", "hf-kernel", "--out", str(tmp_path / "a:b"))
    assert done.returncode == 1 and "has a colon" in done.stderr
    assert not (tmp_path / "a:b").exists()


@needs_torch
def test_folder_exports_what_kernels_community_does(tmp_path):
    """Loaded as the kernels package loads it."""
    folder = printed("-m", "attnpress", "hf-kernel", "--out", str(tmp_path / "k")).strip()
    code = f"""
import importlib.util, sys
path = {folder!r} + "/build/torch-cpu/__init__.py"
spec = importlib.util.spec_from_file_location("attnpress_flash_attn_cpu", path)
kernel = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = kernel
spec.loader.exec_module(kernel)
for name in ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache",
             "flash_attn_qkvpacked_func", "flash_attn_varlen_qkvpacked_func",
             "flash_attn_kvpacked_func", "flash_attn_varlen_kvpacked_func", "fwd", "varlen_fwd",
             "bwd", "varlen_bwd", "fwd_kvcache"):
    assert callable(getattr(kernel, name)), name
from attnpress_flash_attn_cpu.flash_attn_interface import _wrapped_flash_attn_forward
print(kernel.flash_attn_interface.flash_attn_func is kernel.flash_attn_func)
"""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "True\n", done.stderr


@needs_torch
@pytest.mark.skipif(
    importlib.util.find_spec("kernels") is None, reason="Hugging Face's kernels is not installed"
)
def test_folder_is_loaded_by_the_kernels_package(tmp_path):
    folder = printed("-m", "attnpress", "hf-kernel", "--out", str(tmp_path / "k")).strip()
    code = """
import kernels, torch
kernel = kernels.get_kernel("kernels-community/flash-attn2", version=1)
q = torch.ones(1, 4, 2, 8)
print(bool((kernel.flash_attn_func(q, q, q) == 1).all()), kernel.__name__.split("_cu")[0])
"""
    found = printed(
        "-c", code, LOCAL_KERNELS=f"kernels-community/flash-attn2={folder}", HF_HUB_OFFLINE="1"
    )
    assert found.startswith("True attnpress_flash_attn")
