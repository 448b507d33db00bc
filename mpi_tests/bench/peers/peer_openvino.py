#!/usr/bin/env python3
"""OpenVINO GenAI with continuous batching. MODEL is a GGUF file (f16), which it converts itself, or an exported folder.
It gives no logits, so it is not asked to score."""
import numpy as np
import openvino
import openvino_genai as genai
import work


class OpenVino:
    def __init__(self, model, threads):
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_batched_tokens, scheduler.max_num_seqs = 1, 2048, 64
        self.pipe = genai.LLMPipeline(model, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=threads)

    def generate(self, prompts, n):
        config = genai.GenerationConfig(max_new_tokens=n, min_new_tokens=n, ignore_eos=True, do_sample=False,
                                        apply_chat_template=False)
        ids = openvino.Tensor(np.array(prompts, dtype=np.int64))
        mask = openvino.Tensor(np.ones((len(prompts), len(prompts[0])), dtype=np.int64))
        return self.pipe.generate(genai.TokenizedInputs(ids, mask), config)

    def prefill(self, tokens):
        return {"seconds": work.best_of(lambda: self.generate([tokens], 1)), "tokens": len(tokens)}

    def decode(self, tokens, n):
        self.generate([tokens], 8)
        result = self.generate([tokens], n + 1)
        return {"seconds": result.perf_metrics.get_tpot().mean / 1e3 * n, "tokens": n}

    def generation(self, requests):
        made = self.generate([tokens for tokens, _ in requests], requests[0][1]).tokens
        return {"tokens": sum(map(len, made)), "texts": [list(one) for one in made]}


if __name__ == "__main__":
    work.main(OpenVino)
