"""llama.cpp, natively: prefill and decode of the work that bench/run.mjs measures in the browser.

    python bench/native.py MODEL.gguf... [--threads 1 2] [--tokens 100] [--runs 3]

Needs llama-cpp-python, compiled on this machine: see README.md.
"""

import argparse
import statistics
import time
from pathlib import Path

from llama_cpp import Llama

# As in drivers.js: 145 tokens of SmolLM2's vocabulary.
PROMPT = (
    "The history of the printing press begins in the fifteenth century, when movable type made it "
    "possible to copy books far faster than any scribe could. "
) * 5


def measure(engine: Llama, prompt: list[int], tokens: int) -> tuple[float, float]:
    """Prefill and decode tokens/s. Which token is decoded does not change what it costs."""
    engine.reset()
    start = time.perf_counter()
    engine.eval(prompt)
    first = time.perf_counter()
    # The first new token comes out of the prefill.
    for _ in range(tokens - 1):
        engine.eval(prompt[:1])
    end = time.perf_counter()
    return len(prompt) / (first - start), (tokens - 1) / (end - first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()

    for model in options.models:
        print(f"### {model.name}\n\n| engine | prefill tokens/s | decode tokens/s |\n| --- | --- | --- |")
        for threads in options.threads:
            engine = Llama(
                str(model), n_ctx=2048, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False
            )
            prompt = engine.tokenize(PROMPT.strip().encode(), add_bos=False)
            measure(engine, prompt, 16)  # reads the file into memory
            runs = [measure(engine, prompt, options.tokens) for _ in range(options.runs)]
            prefill, decode = (statistics.median(figures) for figures in zip(*runs))
            print(f"| llama.cpp-{threads}t | {prefill:.0f} | {decode:.1f} |", flush=True)
        print()


if __name__ == "__main__":
    main()
