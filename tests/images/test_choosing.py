"""The choice of an image for a model, and why none of the others fits."""

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images import cuda, gpus, versions
from images.choosing import choose, judge, merits
from images.rules import (
    GpuDescription,
    Image,
    ImageRequirements,
    ModelDescription,
    RefusalSubject,
    TrialFacts,
)

H100 = GpuDescription("NVIDIA H100 80GB HBM3", "535.104.05", 80 * 2**30)
A100 = GpuDescription("NVIDIA A100-SXM4-80GB", "580.65.06", 80 * 2**30)
T4 = GpuDescription("Tesla T4", "580.65.06", 15 * 2**30)
LLAMA = ModelDescription("safetensors", "LlamaForCausalLM", "BF16", "", 16 * 2**30)
VLLM = Image(1, "vllm-9", "vllm", "0.9.1", "12.4", code=("8.0", "9.0"), formats=("safetensors",))


def sentences(image: Image, wish: ImageRequirements) -> list[str]:
    return [one.sentence for one in judge(image, wish).refusals]


def on(gpu: GpuDescription, model: ModelDescription = LLAMA, engine: str = "vllm") -> ImageRequirements:
    return ImageRequirements(engine, gpus=(gpu,), model=model)


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("Tesla V100-SXM2-16GB", "7.0"),
        ("Tesla T4", "7.5"),
        ("Quadro RTX 6000", "7.5"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0"),
        ("NVIDIA A10G", "8.6"),
        ("NVIDIA RTX A6000", "8.6"),
        ("NVIDIA L4", "8.9"),
        ("NVIDIA L40S", "8.9"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("NVIDIA GeForce RTX 4090", "8.9"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA GH200 480GB", "9.0"),
        ("NVIDIA H200", "9.0"),
        ("NVIDIA B200", "10.0"),
        ("NVIDIA GB200", "10.0"),
        ("NVIDIA GeForce RTX 5090", "12.0"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0"),
        ("NVIDIA GB10", "12.1"),
        ("8.9", "8.9"),
        ("Fake GPU", ""),
    ],
)
def test_a_gpus_name_tells_its_compute_capability(name: str, capability: str) -> None:
    assert gpus.compute_capability(name) == capability


@pytest.mark.parametrize(
    ("code", "runs_on", "not_on"),
    [
        ("8.0", ["8.0", "8.6", "8.9"], ["7.5", "9.0"]),
        ("8.6", ["8.6", "8.9"], ["8.0", "9.0"]),
        ("sm_90", ["9.0"], ["8.9", "10.0"]),
        ("compute_90", ["9.0", "10.0", "12.0"], ["8.9"]),
        ("8.0+PTX", ["8.0", "9.0", "12.1"], ["7.5"]),
        ("9.0a", ["9.0"], ["10.0"]),
        ("10.0f", ["10.0", "10.3"], ["9.0", "12.0"]),
        ("sm_120", ["12.0", "12.1"], ["10.0"]),
    ],
)
def test_code_runs_on_its_own_generation_and_ptx_on_all_later_ones(code, runs_on, not_on) -> None:
    parsed = cuda.code_of(code)
    assert parsed is not None
    assert cuda.code_of(str(parsed)) == parsed
    assert all(parsed.runs_on(capability) for capability in runs_on)
    assert not any(parsed.runs_on(capability) for capability in not_on)


def test_versions_are_compared_as_numbers() -> None:
    assert versions.at_least("550.54.14", "550")
    assert versions.at_least("12.10", "12.9")
    assert not versions.at_least("535.104.05", "550")
    assert versions.at_least("unknown", "550") is None
    assert cuda.compiling_driver("12.0.1") == "525.60.13"
    assert cuda.least_driver("12.8.1") == "525.60.13"
    assert cuda.least_driver("10.1.243") == "418.39"
    assert cuda.least_driver("99") == cuda.least_driver("") == ""
    assert versions.answers("0.10", "0.10.2")
    assert not versions.answers("0.1", "0.10.2")
    assert versions.answers(">=0.9", "v0.10.2rc1")


def test_a_driver_that_is_too_old_is_named_beside_the_one_that_is_needed() -> None:
    demanding = replace(VLLM, least_driver="550")
    assert sentences(demanding, on(H100)) == [
        "needs driver 550 or newer; NVIDIA H100 80GB HBM3 has 535.104.05"
    ]
    assert sentences(VLLM, on(H100)) == []  # CUDA 12.4 on a driver of 12.2: minor version compatibility.
    newer = replace(VLLM, cuda_version="13.0")
    assert sentences(newer, on(H100)) == [
        "needs driver 580 or newer for CUDA 13.0; NVIDIA H100 80GB HBM3 has 535.104.05"
    ]


def test_ptx_is_compiled_only_by_a_driver_of_its_own_toolkit() -> None:
    portable = replace(VLLM, code=("8.0+PTX",))
    assert sentences(portable, on(H100)) == [
        "needs driver 550.54.14 or newer to compile the PTX of CUDA 12.4; "
        "NVIDIA H100 80GB HBM3 has 535.104.05"
    ]
    assert judge(portable, on(replace(H100, driver="550.54.15"))).fits


def test_each_kind_of_obstacle_has_its_sentence() -> None:
    assert sentences(VLLM, on(T4)) == ["is compiled for 8.0, 9.0; Tesla T4 has compute capability 7.5"]
    assert sentences(VLLM, on(A100, replace(LLAMA, format="gguf"))) == [
        "loads safetensors; the model is gguf"
    ]
    assert sentences(VLLM, ImageRequirements("vllm", gpus=())) == ["needs a GPU; there is none"]
    assert sentences(Image(2, "cpu", "vllm", "0.9", runs_on_cpu=True), on(A100)) == [
        "brings no CUDA; the worker gets NVIDIA A100-SXM4-80GB"
    ]
    assert sentences(VLLM, on(A100, engine="tgi")) == ["is an image of vllm, not of tgi"]
    asked = ImageRequirements("vllm", engine_version="0.10", gpus=(A100,))
    assert sentences(VLLM, asked) == ["has vllm 0.9.1; asked is 0.10"]


def test_fp8_is_refused_where_the_engine_has_no_other_way_and_told_where_it_has_one() -> None:
    fp8 = replace(LLAMA, quantization="fp8", dtype="F8_E4M3")
    trt = replace(VLLM, engine="tensorrt-llm")
    assert sentences(trt, on(A100, fp8, "tensorrt-llm")) == [
        "tensorrt-llm needs compute capability 8.9 for FP8; NVIDIA A100-SXM4-80GB has 8.0"
    ]
    assert judge(VLLM, on(A100, fp8)).fits
    assert judge(VLLM, on(A100, fp8)).doubts[0].startswith("on NVIDIA A100-SXM4-80GB vllm keeps its FP8")
    assert judge(VLLM, on(H100, fp8)).doubts == ()
    volta = GpuDescription("Tesla V100-SXM2-16GB", "580.65.06")
    awq = replace(LLAMA, quantization="awq", dtype="F16")
    assert sentences(replace(VLLM, code=("7.0",)), on(volta, awq)) == [
        "vllm needs compute capability 7.5 for AWQ; Tesla V100-SXM2-16GB has 7.0"
    ]


def test_what_is_not_known_refuses_nothing_and_is_said() -> None:
    unknown = ImageRequirements("vllm", gpus=(GpuDescription("Fake GPU"),), model=LLAMA)
    judged = judge(VLLM, unknown)
    assert judged.fits
    assert "the compute capability of Fake GPU is not known" in judged.doubts
    assert judge(VLLM, ImageRequirements("vllm")).doubts == ("the GPUs are not known",)


def test_weights_that_are_larger_than_the_memory_are_a_doubt() -> None:
    large = replace(LLAMA, weights_bytes=140 * 2**30)
    assert "the weights take 140 GiB as stored; a worker has 80 GiB of GPU memory" in (
        judge(VLLM, on(A100, large)).doubts
    )
    assert judge(VLLM, replace(on(A100, large), gpus_per_worker=2)).doubts == ()


def test_the_last_word_of_those_who_tried_it_counts() -> None:
    failed = TrialFacts("H100", "LlamaForCausalLM", False, "NaN logits", "ada", date(2026, 3, 3))
    worked = replace(failed, works=True, on=date(2026, 3, 4))
    assert sentences(replace(VLLM, trials=(failed,)), on(H100)) == [
        "failed on H100 with LlamaForCausalLM, says ada of 3 Mar 2026: NaN logits"
    ]
    assert judge(replace(VLLM, trials=(worked, failed)), on(H100)).fits
    assert judge(replace(VLLM, trials=(failed,)), on(A100)).fits


def test_a_tried_image_is_preferred_and_the_newer_one_told_why() -> None:
    tried = TrialFacts("H100", "LlamaForCausalLM", True, "", "ada", date(2026, 3, 3))
    newer = replace(VLLM, key=2, name="vllm-10", engine_version="0.10.0")
    choice = choose([newer, replace(VLLM, trials=(tried,))], on(H100))
    assert choice.best is not None
    assert choice.best.image.name == "vllm-9"
    assert "has been tried there" in choice.best.why
    assert choice.sentences == ("vllm-10: fits, but vllm-9 has been tried on this GPU and works.",)
    assert choose([newer, VLLM], on(H100)).sentences == (
        "vllm-9: fits, but vllm-10 has the newer engine, 0.10.0.",
    )


def test_a_worker_may_land_on_any_kind_of_gpu_so_the_image_must_run_on_all() -> None:
    both = ImageRequirements("vllm", gpus=(A100, T4), model=LLAMA)
    assert choose([VLLM], both).best is None
    assert choose([VLLM, replace(VLLM, key=2, name="wide", code=("7.5", "8.0"))], both).best is not None


names = st.sampled_from(
    ["Tesla T4", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 PCIe", "NVIDIA B200", "Fake GPU", "8.6"]
)
drivers = st.sampled_from(["", "470.42.01", "525.60.13", "535.104.05", "550.54.14", "580.65.06", "[N/A]"])
trials = st.builds(
    TrialFacts,
    gpu=st.sampled_from(["T4", "A100", "H100"]),
    architecture=st.sampled_from(["", "LlamaForCausalLM"]),
    works=st.booleans(),
    words=st.just(""),
    by=st.just("ada"),
    on=st.just(date(2026, 3, 3)),
)
some_images = st.lists(
    st.builds(
        Image,
        key=st.integers(1, 10_000),
        name=st.just("x"),
        engine=st.sampled_from(["vllm", "vllm", "transformers", "tensorrt-llm"]),
        engine_version=st.sampled_from(["", "0.9", "0.10.1", "1.0"]),
        cuda_version=st.sampled_from(["", "11.8", "12.4", "12.8", "13.0", "99"]),
        least_driver=st.sampled_from(["", "550", "570.26"]),
        code=st.sampled_from([(), ("8.0",), ("7.5", "8.0+PTX"), ("9.0a", "10.0"), ("compute_75",)]),
        formats=st.sampled_from([(), ("safetensors",), ("gguf", "safetensors"), ("onnx",)]),
        runs_on_cpu=st.booleans(),
        is_own=st.booleans(),
        deprecation=st.sampled_from(["", "", "is deprecated since 3 March 2026"]),
        trials=st.lists(trials, max_size=2).map(tuple),
    ),
    max_size=6,
    unique_by=lambda image: image.key,
)
wishes = st.builds(
    ImageRequirements,
    engine=st.sampled_from(["vllm", "transformers", "tensorrt-llm"]),
    engine_version=st.sampled_from(["", "0.10", ">=0.9"]),
    gpus=st.none() | st.lists(st.builds(GpuDescription, name=names, driver=drivers), max_size=2).map(tuple),
    model=st.builds(
        ModelDescription,
        format=st.sampled_from(["", "safetensors", "gguf"]),
        architecture=st.sampled_from(["", "LlamaForCausalLM"]),
        dtype=st.sampled_from(["", "BF16", "F8_E4M3"]),
        quantization=st.sampled_from(["", "fp8", "awq", "gptq"]),
    ),
)


@given(some_images, wishes)
def test_one_image_more_never_makes_the_choice_worse(images: list[Image], wish: ImageRequirements) -> None:
    before = choose(images[1:], wish).best
    after = choose(images, wish).best
    if before is not None:
        assert after is not None
        assert merits(after, wish) >= merits(before, wish)


@given(some_images, wishes, st.randoms())
def test_the_choice_does_not_depend_on_the_order_and_tells_of_every_image(images, wish, random) -> None:
    choice = choose(images, wish)
    told = [*([choice.best] if choice.best else []), *choice.others]
    assert sorted(one.image.key for one in told) == sorted(image.key for image in images)
    assert all(one.why.endswith(".") for one in told)
    assert (choice.best is None) == all(one.refusals for one in told)
    random.shuffle(images)
    assert choose(images, wish) == choice


@given(some_images, wishes)
def test_every_refusal_names_a_fact_that_is_truly_violated(
    images: list[Image], wish: ImageRequirements
) -> None:
    for image in images:
        for refusal in judge(image, wish).refusals:
            assert is_violated(refusal.fact, image, wish), refusal


@given(some_images, wishes)
def test_a_gpu_that_cannot_run_the_code_or_the_weights_is_always_refused(images, wish) -> None:
    for image in images:
        told = {refusal.fact for refusal in judge(image, wish).refusals}
        if image.engine == wish.engine and image.cuda_version and image.code:
            assert is_violated(RefusalSubject.CODE, image, wish) == (RefusalSubject.CODE in told)
            is_gguf = wish.model.format == "gguf"
            assert is_gguf or is_violated(RefusalSubject.QUANTIZATION, image, wish) == (
                RefusalSubject.QUANTIZATION in told
            )


RUNS_ON = {
    "8.0": {"8.0", "8.6"},
    "7.5": {"7.5"},
    "8.0+PTX": {"8.0", "8.6", "9.0", "10.0"},
    "9.0a": {"9.0"},
    "10.0": {"10.0"},
    "compute_75": {"7.5", "8.0", "8.6", "9.0", "10.0"},
}
"""Of the GPUs above, by hand."""
LEAST = {("vllm", "fp8"): 7.5, ("tensorrt-llm", "fp8"): 8.9, ("vllm", "awq"): 7.5, ("vllm", "gptq"): 7.0}


def is_violated(fact: RefusalSubject, image: Image, wish: ImageRequirements) -> bool:
    """Said again without the rules' own code, from the numbers alone."""
    present, model = wish.gpus or (), wish.model
    match fact:
        case RefusalSubject.ENGINE:
            return image.engine != wish.engine
        case RefusalSubject.ENGINE_VERSION:
            if wish.engine_version == "0.10":
                return image.engine_version != "0.10.1"
            return False
        case RefusalSubject.DEPRECATED:
            return bool(image.deprecation)
        case RefusalSubject.GPU:
            return (wish.gpus == () and not image.runs_on_cpu) or (bool(present) and not image.cuda_version)
        case RefusalSubject.CODE:
            runs_on = {one for code in image.code for one in RUNS_ON[code]}
            return any(gpu.capability and gpu.capability not in runs_on for gpu in present)
        case RefusalSubject.DRIVER:
            needs = {"11.8": 450, "12.4": 525, "12.8": 525, "13.0": 580}
            least = int((image.least_driver or "0").split(".")[0]) or needs[image.cuda_version]
            majors = [int(gpu.driver.split(".")[0]) for gpu in present if gpu.driver[:1].isdigit()]
            compiled = {"11.8": 520, "12.4": 550, "12.8": 570, "13.0": 580}
            if any("PTX" in code or "compute" in code for code in image.code) and not image.least_driver:
                least = compiled[image.cuda_version]
            return any(major <= least for major in majors)
        case RefusalSubject.FORMAT:
            return model.format not in image.formats
        case RefusalSubject.QUANTIZATION:
            is_fp8 = model.quantization == "fp8" or (not model.quantization and model.dtype == "F8_E4M3")
            least = LEAST.get((wish.engine, "fp8" if is_fp8 else model.quantization), 0.0)
            return any(gpu.capability and float(gpu.capability) < least for gpu in present)
        case RefusalSubject.TRIED:
            return any(not trial.works for trial in image.trials)
