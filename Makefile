# Every target works from a fresh clone with Python (3.10 or later, with venv and pip) and make.
#   make demo    check, fix and run a small model before and after
#   make test    all CPU tests
PYTHON ?= python3
PIP_FLAGS ?=
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
# bench-rule-consequences: the last release of each version
RULE_TORCHES := 2.11.0 2.12.1 2.13.0 2.14.1 2.15.0
# make test: how many test processes
TEST_JOBS ?= 2

.PHONY: \
	adverse-gpu \
	bench-breaks \
	bench-captured \
	bench-compare \
	bench-distributed \
	bench-complaints \
	bench-cond \
	bench-decode \
	bench-fix-cost \
	bench-fix-models \
	bench-fix-models-old \
	bench-fix-models-tests \
	bench-fix-suites \
	bench-graph-memory \
	bench-helpers \
	bench-first-calls \
	bench-fix-unseen \
	bench-hook \
	bench-fix-uses \
	bench-frameworks \
	bench-lint \
	bench-lint-incremental \
	bench-lint-one-file \
	bench-lint-packages \
	bench-lint-truth \
	bench-lint-truth-newer \
	bench-placement \
	bench-regional \
	bench-report \
	bench-rt \
	bench-rule-consequences \
	bench-rule-gpu \
	bench-same-kernels \
	bench-selection \
	bench-shapes \
	bench-server \
	bench-trace-overhead \
	bench-trace-gpu \
	bench-trace-predictions \
	bench-trace-truth \
	bench-training \
	bench-trace-page \
	bench-training-loops \
	bench-workloads \
	clean \
	code-lines \
	demo \
	dist \
	docs \
	docs-browser \
	docs-settings \
	figures \
	format \
	fuzz-fixes \
	fuzz-fixes-gpu \
	fuzz-pairs \
	lint \
	memcheck \
	test \
	test-distributed \
	test-gpu \
	test-long \
	test-nodes \
	test-packaging \
	trace-programs \
	training-loops-on-cpu \
	training-loops-on-gpu \
	vscode

demo: $(VENV)/.ready
	$(BIN)/python fixtures/demo.py

test: $(VENV)/.ready-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(TEST_JOBS) --dist loadfile

# Every statement and expression of FOLDERS (separated by :), in both of the trees that fixes use.
test-nodes: $(VENV)/.ready
	PYGRAPH_NODE_FOLDERS="$(FOLDERS)" $(BIN)/python -m pytest -q tests/fixes/test_nodes.py $(ARGS)

# Goes on where it stopped; ARGS="--seconds 600 --rewrites masked_write".
fuzz-fixes: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fixes.fuzz $(ARGS)

# Fixed programs in a file, and the same programs on a GPU machine that has torch.
fuzz-pairs: $(VENV)/.ready
	mkdir -p build
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fixes.fuzz --pairs build/fuzz_pairs.json $(ARGS)

fuzz-fixes-gpu:
	$(PYTHON) -m tests.fixes.fuzz.on_gpu build/fuzz_pairs.json \
		--out benchmarks/results/fuzz_fixes_gpu.json $(ARGS)

test-long: $(VENV)/.ready-long
	$(BIN)/python -m pytest -q --durations 5 tests/long
	PYGRAPH_PAGES=all $(BIN)/python -m pytest -q tests/docs/test_transcripts.py
	PYGRAPH_LONG=1 $(BIN)/python -m pytest -q tests/trace tests/runtime/test_memory_helper.py

# Both distributions, source and wheel, in dist/. Of the runtime two wheels: one for this Python and system with the compiled
# launch helper (where there is a C compiler), and one in pure Python for all others.
dist: $(VENV)/.ready-long
	rm -rf dist
	$(BIN)/python -m build -q --outdir dist .
	$(BIN)/python -m build -q --outdir dist packaging/rt
	PYGRAPH_RT_NATIVE=0 $(BIN)/python -m build -q --wheel --outdir dist packaging/rt

# DDP, FSDP2, tensor parallel, pipelines, meshes of two dimensions and faults on gloo: half an hour on two cores. One case:
# ARGS="-k offload".
test-distributed: $(VENV)/.ready-test
	PYGRAPH_DISTRIBUTED=all OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/runtime/test_distributed.py tests/runtime/test_distributed_scripts.py tests/runtime/test_ranks.py $(ARGS)

test-packaging: $(VENV)/.ready-long
	$(BIN)/python -m pytest -q --durations 5 tests/long/test_packaging.py

# Uses the given interpreter as it is: PYTHON=... needs torch with CUDA and pytest, nothing of the linter.
# ARGS="-n 14 --ignore tests/gpu/test_selection.py --ignore tests/gpu/test_trace.py" runs them side by side (pytest-xdist); what is left out compares times,
# and needs the GPU to itself.
test-gpu:
	$(PYTHON) -m pytest tests/gpu -q $(ARGS)

# Programs that try to make graphs give other results, in a process each; needs what test-gpu needs but for pytest.
# ARGS="--jobs 12 --resume"; ARGS="--only saved_,op_" takes those with such names.
adverse-gpu:
	$(PYTHON) -m tests.gpu.adverse $(ARGS)

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pygraph_lint check pygraph_lint pygraph_rt

# The extension for VS Code: types, lint, tests, and editors/vscode/pygraph-lint-VERSION.vsix. Needs node 20 and npm.
vscode: $(VENV)/.ready
	cd editors/vscode && npm ci --no-audit --no-fund
	cd editors/vscode && npm run check && npm run lint
	cd editors/vscode && PYGRAPH_PYTHON="$(CURDIR)/$(BIN)/python" npm test
	cd editors/vscode && npm run build && npm run package

code-lines:
	$(PYTHON) -m benchmarks.code_lines $(ARGS)

# The site, in build/site; a warning is an error.
docs: .venv-docs/.ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict -f docs/site/mkdocs.yml
	.venv-docs/bin/python docs/site/check_links.py build/site
	.venv-docs/bin/python docs/site/search.py build/site

# Pages of build/site in a browser, by axe: phone and desk width, light and dark. CHROMIUM=... names one, else playwright's.
docs-browser: docs
	.venv-docs/bin/python -m pip install -q $(PIP_FLAGS) playwright==1.65.2 axe-playwright-python==0.1.8
	.venv-docs/bin/python docs/site/browser.py build/site

# The pictures of docs/img, from benchmarks/results.
figures: .venv-docs/.ready
	.venv-docs/bin/python -m benchmarks.figures

# The table of settings in docs/reference/settings.md.
docs-settings: $(VENV)/.ready
	$(BIN)/python -m benchmarks.settings_reference

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-lint: .venv-bench/.ready
	.venv-bench/bin/python benchmarks/lint_speed.py $(ARGS)

# One file of a large project with nothing cached, beside its slice of the whole run.
bench-lint-one-file: .venv-bench/.ready
	.venv-bench/bin/python -m benchmarks.lint_one_file $(ARGS)

# What an edit costs in an editor, and whether it gives the findings of a fresh check.
bench-lint-incremental: .venv-bench/.ready
	.venv-bench/bin/python -m benchmarks.lint_incremental $(ARGS)

# The editor server in transformers: 200 recorded edits, fixes, the first read, memory.
bench-server: .venv-bench/.ready
	.venv-bench/bin/python -m pip install -q $(PIP_FLAGS) -e '.[server]' psutil
	.venv-bench/bin/python -m benchmarks.server $(ARGS)

# The pre-commit hook in a project of 3,000 files.
bench-hook: .venv-bench/.ready .venv-bench/hook/.ready
	.venv-bench/bin/python benchmarks/hook_speed.py \
		--packages .venv-bench/hook/transformers .venv-bench/hook/diffusers \
		--also transformers/models/llama/modeling_llama.py $(ARGS)

.venv-bench/hook/.ready: .venv-bench/.ready
	.venv-bench/bin/python -m pip install -q $(PIP_FLAGS) "pre-commit>=4"
	.venv-bench/bin/python -m pip install -q $(PIP_FLAGS) --no-deps --target .venv-bench/hook \
		transformers==5.4.0 diffusers==0.37.1
	touch $@

# A page of 5,000 events in a browser: CHROMIUM=... names one, else playwright's own is used.
bench-trace-page: .venv-bench/.ready
	.venv-bench/bin/python -m pip install -q $(PIP_FLAGS) playwright
	.venv-bench/bin/python benchmarks/trace_page.py $(ARGS)

# Needs torch, tqdm and transformers in PYTHON.
trace-programs: .venv-trace-programs/.ready
	OMP_NUM_THREADS=1 .venv-trace-programs/bin/python benchmarks/trace_programs.py $(ARGS)

# Packages as their authors wrote them: downloaded, unpacked, never installed.
bench-fix-uses: .venv-bench/.ready .venv-bench/packages/.ready
	.venv-bench/bin/python benchmarks/fix_uses.py --packages .venv-bench/packages \
		--out benchmarks/results/fix_uses.json $(ARGS)

# What --fix costs beside check, over the whole of transformers.
bench-fix-cost: .venv-bench/.ready .venv-bench/packages/.ready
	.venv-bench/bin/python -m benchmarks.fix_cost \
		--package .venv-bench/packages/transformers-5.4.0/transformers $(ARGS)

.venv-bench/packages/.ready: benchmarks/fix_uses_packages.txt .venv-bench/.ready
	.venv-bench/bin/python -m pip download -q $(PIP_FLAGS) --no-deps --only-binary :all: \
		-d .venv-bench/wheels -r benchmarks/fix_uses_packages.txt
	.venv-bench/bin/python benchmarks/fix_uses.py --unpack .venv-bench/wheels --packages .venv-bench/packages
	touch $@

bench-lint-truth: .venv-truth/.ready
	.venv-truth/bin/python -m benchmarks.lint_truth $(ARGS)

# The recorder of `python -m pygraph_rt.trace` beside torch's own log of processes that are not traced.
bench-trace-truth: .venv-truth/.ready
	OMP_NUM_THREADS=1 .venv-truth/bin/python -m benchmarks.trace_truth $(ARGS)

# The number of graphs that `pygraph-lint trace` names for each step, beside what came true.
bench-trace-predictions: .venv-truth/.ready
	OMP_NUM_THREADS=1 .venv-truth/bin/python -m benchmarks.trace_predictions $(ARGS)

# What a trace costs on the CPU.
bench-trace-overhead: $(VENV)/.ready-test
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.trace_overhead

# What a trace costs on a GPU, and its waits beside the profiler's. Needs a CUDA device, torch and nothing else.
bench-trace-gpu:
	$(PYTHON) -m benchmarks.trace_gpu --out benchmarks/results/trace_gpu.json

# The same on the newest transformers and diffusers, which no rule was written against.
bench-lint-truth-newer: .venv-truth-newer/.ready
	.venv-truth-newer/bin/python -m benchmarks.lint_truth --set newer $(ARGS)

# Packages of other authors. ARGS='score --options "--regions compiled"' scores with options of the linter.
bench-lint-packages: .venv-truth-packages/.ready
	nice .venv-truth-packages/bin/python -m benchmarks.lint_truth_packages $(ARGS)

# The rule pages' bad examples on each version of torch that the linter speaks of.
bench-rule-consequences: $(RULE_TORCHES:%=.venv-torch-%/.ready)
	for version in $(RULE_TORCHES); do \
		OMP_NUM_THREADS=1 .venv-torch-$$version/bin/python -m benchmarks.rule_consequences \
			--out benchmarks/results/rule_consequences_by_torch.json $(ARGS) || exit 1; \
	done

# The same on a GPU machine that has torch.
bench-rule-gpu:
	$(PYTHON) -m benchmarks.rule_consequences_gpu --out benchmarks/results/rule_consequences_gpu.json $(ARGS)

bench-fix-models: .venv-truth/.ready
	.venv-truth/bin/python -m benchmarks.fix_models all $(ARGS)

# GraphMend's list of models, on the transformers it was run on.
bench-fix-models-old: .venv-truth-old/.ready
	.venv-truth-old/bin/python -m benchmarks.fix_models all --graphmend --variants safe unsafe \
		--folder .venv-truth-old/fix_models --known none --out benchmarks/results/fix_models_4_52_4.json $(ARGS)

# Fixes on code that no rewrite was written against: the programs over packages of other authors, and the newest models.
bench-fix-unseen: .venv-truth-packages/.ready .venv-truth-newer/.ready
	.venv-truth-packages/bin/python -m benchmarks.fix_unseen all --set packages \
		--folder .venv-truth-packages/fix_unseen $(ARGS)
	.venv-truth-newer/bin/python -m benchmarks.fix_unseen all --set models \
		--folder .venv-truth-newer/fix_unseen $(ARGS)

# transformers' shared tests, on the copies that bench-fix-models made.
bench-fix-models-tests: .venv-truth/.ready
	.venv-truth/bin/python -m pip install -q $(PIP_FLAGS) pytest parameterized accelerate setuptools wheel
	.venv-truth/bin/python -m pip download -q $(PIP_FLAGS) --no-deps --no-binary :all: \
		--no-build-isolation -d .venv-truth/source transformers==5.4.0
	tar -xzf .venv-truth/source/transformers-5.4.0.tar.gz -C .venv-truth/source
	.venv-truth/bin/python -m benchmarks.fix_models.own_tests \
		--source .venv-truth/source/transformers-5.4.0 $(ARGS)

# The test suites of other authors' packages, before and after fixes.
bench-fix-suites: .venv-suites/.ready
	for each in e3nn==0.6.0 gpytorch==1.15.2 linear_operator==0.6.1 peft==0.21.2 pykeen==1.11.1 \
			neuraloperator==2.0.0 zuko==1.6.0 xitorch==0.5.1 normflows==1.7.3 evotorch==0.6.1 torchquad==0.6.0; do \
		.venv-suites/bin/python -m pip download -q $(PIP_FLAGS) --no-deps --no-binary $${each%%==*} \
			-d .venv-suites/source $$each || exit 1; \
	done
	.venv-suites/bin/python benchmarks/fix_suites.py --folder .venv-suites/source $(ARGS)

# Fetches the packages that have marked loops; ARGS="score --codes PG7 --list" shows what is missed in `develop` and `fresh`.
bench-training-loops: .venv-loops/.ready
	.venv-loops/bin/python -m benchmarks.training_loops $(ARGS)

# The marks, on a pretended device and on a GPU (which needs torch alone).
training-loops-on-cpu: .venv-loops/.ready .venv-loops-run/.ready
	.venv-loops/bin/python -m benchmarks.training_loops fetch
	OMP_NUM_THREADS=1 .venv-loops-run/bin/python -m benchmarks.training_loops.on_cpu \
		--packages .venv-loops/packages --out benchmarks/results/training_loops_on_cpu.json

training-loops-on-gpu:
	$(PYTHON) -m benchmarks.training_loops.on_gpu --out benchmarks/results/training_loops_on_gpu.json

# The next nine use the given interpreter as it is: torch, and what benchmarks/requirements.txt names.
bench-cond:
	$(PYTHON) -m benchmarks.cond $(ARGS)

# ARGS="--copy .venv-truth/fix_models/unsafe" asks models, too, with the interpreter of .venv-truth.
bench-captured:
	$(PYTHON) -m benchmarks.captured_scalars $(ARGS)

bench-rt:
	$(PYTHON) -m benchmarks.runtime $(ARGS)

# BASE=... is a checkout of the version to compare with; ARGS="--shard 1/3 --resume".
bench-compare:
	$(PYTHON) -m benchmarks.compare_commits --base $(BASE) $(ARGS)

bench-same-kernels:
	$(PYTHON) -m benchmarks.kernels $(ARGS)

bench-graph-memory:
	$(PYTHON) -m benchmarks.runtime.graph_memory $(ARGS)

bench-helpers:
	$(PYTHON) -m benchmarks.runtime.helpers $(ARGS)

bench-placement:
	$(PYTHON) -m benchmarks.runtime.placement $(ARGS)

# Several GPUs of one machine: ARGS="--ranks 2 --shard 1/8 --resume"; --tiny is for a CPU, --list names the rows.
bench-distributed:
	$(PYTHON) -m benchmarks.distributed $(ARGS)

bench-selection:
	$(PYTHON) -m benchmarks.runtime.selection $(ARGS)

bench-training:
	$(PYTHON) -m benchmarks.runtime.training $(ARGS)

# Needs compute-sanitizer, from the CUDA toolkit.
memcheck:
	$(PYTHON) -m benchmarks.runtime.memcheck $(ARGS)

bench-workloads:
	$(PYTHON) -m benchmarks.workloads $(ARGS)

# Needs the linter too; FOLDER=... is where it works.
bench-breaks:
	$(PYTHON) -m benchmarks.workloads.breaks --folder $(FOLDER) $(ARGS)

# Programs of public complaints, under default mode, reduce-overhead and pygraph.
bench-complaints:
	$(PYTHON) -m benchmarks.complaints $(ARGS)

# One block compiled for all, beside the whole model: inference and training.
bench-regional:
	$(PYTHON) -m benchmarks.regional $(ARGS)

# An 8B-shaped Llama beside the bandwidth of the same GPU.
bench-decode:
	$(PYTHON) -m benchmarks.decode $(ARGS)

# Ten frameworks' own loops.
bench-frameworks:
	$(PYTHON) -m benchmarks.frameworks $(ARGS)
	$(PYTHON) -m benchmarks.frameworks.memory

# From before torch.compile to call 500, in fresh processes with and without caches.
bench-first-calls:
	$(PYTHON) -m benchmarks.first_calls $(ARGS)

# Fine-tuning on batches of ever other lengths.
bench-shapes:
	$(PYTHON) -m benchmarks.shapes $(ARGS)

bench-report:
	$(PYTHON) -m benchmarks.workloads.report $(ARGS)

clean:
	rm -rf $(VENV) .venv-bench .venv-docs .venv-truth .venv-truth-old .venv-truth-newer .venv-truth-packages \
		.venv-torch-* .venv-loops .venv-loops-run build dist

# --- environments: a stamp file each, made again when pyproject.toml changes -----------------------

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml packaging/rt/pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -q $(PIP_FLAGS) $(TORCH) -e '.[test]' -e ./packaging/rt
	touch $@

# The workloads' models: their tests skip, by name, what is missing.
$(VENV)/.ready-test: benchmarks/requirements.txt $(VENV)/.ready
	$(BIN)/python -m pip install -q $(PIP_FLAGS) $(TORCH) -r benchmarks/requirements.txt
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/python -m pip install -q $(PIP_FLAGS) -e '.[dev]'
	touch $@

$(VENV)/.ready-long: $(VENV)/.ready-test
	$(BIN)/python -m pip install -q $(PIP_FLAGS) -e '.[long]'
	touch $@

.venv-docs/.ready: docs/site/requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install -q $(PIP_FLAGS) -r docs/site/requirements.txt -e .
	touch $@

.venv-bench/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install -q $(PIP_FLAGS) -e . torchfix==0.7.0 ruff
	.venv-bench/bin/python -m pip install -q $(PIP_FLAGS) --no-deps transformers==5.4.0
	touch $@

.venv-loops/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-loops
	.venv-loops/bin/python -m pip install -q $(PIP_FLAGS) -e . "setuptools>=68" wheel
	touch $@

.venv-loops-run/.ready: benchmarks/training_loops/requirements.txt
	$(PYTHON) -m venv .venv-loops-run
	.venv-loops-run/bin/python -m pip install -q $(PIP_FLAGS) $(TORCH) \
		-r benchmarks/training_loops/requirements.txt
	touch $@

.venv-trace-programs/.ready: pyproject.toml benchmarks/trace_programs_requirements.txt
	$(PYTHON) -m venv .venv-trace-programs
	.venv-trace-programs/bin/python -m pip install -q $(PIP_FLAGS) $(TORCH) -e . \
		-r benchmarks/trace_programs_requirements.txt
	touch $@

.venv-truth/.ready: pyproject.toml benchmarks/lint_truth/requirements.txt
	$(PYTHON) -m venv .venv-truth
	.venv-truth/bin/python -m pip install -q $(PIP_FLAGS) $(TORCH) -e . \
		-r benchmarks/lint_truth/requirements.txt
	touch $@

.venv-truth-newer/.ready: pyproject.toml benchmarks/lint_truth/requirements_newer.txt
	$(PYTHON) -m venv .venv-truth-newer
	.venv-truth-newer/bin/python -m pip install -q $(PIP_FLAGS) $(TORCH) -e . \
		-r benchmarks/lint_truth/requirements_newer.txt
	touch $@

.venv-truth-packages/.ready: pyproject.toml benchmarks/lint_truth_packages/requirements.txt
	$(PYTHON) -m venv .venv-truth-packages
	.venv-truth-packages/bin/python -m pip install -q $(PIP_FLAGS) $(TORCH) -e . \
		-r benchmarks/lint_truth_packages/requirements.txt
	touch $@

.venv-suites/.ready: pyproject.toml benchmarks/fix_suites_packages.txt
	$(PYTHON) -m venv .venv-suites
	.venv-suites/bin/python -m pip install -q $(PIP_FLAGS) $(TORCH) -e . -r benchmarks/fix_suites_packages.txt
	touch $@

.venv-torch-%/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-torch-$*
	.venv-torch-$*/bin/python -m pip install -q $(PIP_FLAGS) torch==$* numpy -e .
	touch $@

.venv-truth-old/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-truth-old
	.venv-truth-old/bin/python -m pip install -q $(PIP_FLAGS) $(TORCH) -e . numpy \
		transformers==4.52.4 torchvision==0.28.0
	touch $@
