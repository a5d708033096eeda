# The commands of this project; each sets up what it needs first (tools/setup.sh). CMake does the
# building.
#
# BUILD=FOLDER builds elsewhere; CMAKE_ARGS passes more to CMake, as in
# CMAKE_ARGS=-DATTNPRESS_PREBUILT=OFF.

BUILD ?= build
CMAKE_ARGS ?=
PYTEST_ARGS ?=
export TORCH ?= 0

export PATH := $(CURDIR)/.venv/bin:$(PATH)
python := .venv/bin/python
build_dir = $(abspath $(BUILD))

.PHONY: help demo test build generate wheel sdist clean setup-%

help:
	@echo "make demo      build everything, press two head dims that are not linked in, and run them"
	@echo "make test      build everything and run all tests"
	@echo "make build     the library and the tool, in $(BUILD)/"
	@echo "make generate  write generated/ again, after a change in its inputs"
	@echo "make wheel     a Python wheel for every Linux of glibc 2.28, in $(BUILD)/wheel/"
	@echo "make sdist     the sources as pip takes them, in $(BUILD)/wheel/"
	@echo "make clean     remove $(BUILD)/ (.venv stays)"

setup-%:
	@tools/setup.sh $*

# After any of the setups: configure (a second when nothing changed) and build.
define build_all
	@cmake -S . -B $(BUILD) -G Ninja -DPython3_EXECUTABLE=$(CURDIR)/$(python) \
	  -DATTNPRESS_NVRTC_DIRS="$$(tools/setup.sh nvrtc)" $(CMAKE_ARGS) >$(BUILD).log 2>&1 \
	  || { cat $(BUILD).log >&2; exit 1; }
	@rm -f $(BUILD).log
	@cmake --build $(BUILD)
endef

# Before a program of the build: where NVRTC is pip's, it is put on the loader's path, since the
# library looks nowhere else for it.
with_nvrtc = nvrtc=$$(tools/setup.sh nvrtc); [ -z "$$nvrtc" ] || \
	  export LD_LIBRARY_PATH="$${LD_LIBRARY_PATH:+$$LD_LIBRARY_PATH:}$$nvrtc";

build: setup-build
	$(build_all)

demo: setup-demo
	$(build_all)
	@$(with_nvrtc) $(python) tools/demo.py --build $(BUILD)

# All tests, in C, sh and Python, as many at a time as there are cores; at the end what each of
# pytest's was skipped for. PYTEST_ARGS="-k NAME" goes to pytest. TORCH=1 fetches PyTorch, several GB,
# where there is none.
test: setup-test
	$(build_all)
	@$(with_nvrtc) status=0; \
	PYTEST_ADDOPTS="-rs $(PYTEST_ARGS)" \
	ctest --test-dir $(BUILD) -j"$$(nproc)" --output-on-failure || status=1; \
	sed -n 's/^SKIPPED /skipped: /p' $(BUILD)/Testing/Temporary/LastTest.log; \
	exit $$status

generate: setup-generate
	$(python) -m generator

# The kernels of $(BUILD)/prebuilt/ are linked in; those that are not there are compiled.
wheel: setup-wheel
	@tools/wheel.sh $(BUILD) wheel

sdist: setup-sdist
	@tools/wheel.sh $(BUILD) sdist

clean:
	rm -rf $(BUILD)
