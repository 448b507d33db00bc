"""What every engine does with the same token ids, and how it says what it measured."""
import json
import pathlib
import resource
import sys
import time

BATCH_PROMPT, NEW, PREFILL, DECODE = 128, 64, 512, 128


def lines(folder, name):
    with open(pathlib.Path(folder) / name, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def generation(folder):
    """[(tokens, how many to generate)]"""
    return [(line["tokens"], line["max_tokens"]) for line in lines(folder, "gen-64x128.jsonl")]


def scoring(folder):
    """[tokens]"""
    return [line["tokens"] for line in lines(folder, "score-64x512.jsonl")]


def best_of(run, repeats=3):
    """Seconds of the fastest run behind a warm-up."""
    run()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main(engine):
    """engine: a class made with (model, threads), one method for each job; each returns what it has to say:
    prefill, decode: {"seconds", "tokens"}; generation: {"tokens", "texts": token ids}; scoring: {"tokens", "sum"}."""
    job, model, folder, threads = sys.argv[1:5]
    running = engine(model, int(threads))
    if job == "prefill":
        said = running.prefill(scoring(folder)[0][:PREFILL])
    elif job == "decode":
        said = running.decode(generation(folder)[0][0], DECODE)
    elif job == "generation":
        said = running.generation(generation(folder))
    else:
        said = running.scoring(scoring(folder))
    said["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps(said), flush=True)
