#!/usr/bin/env python3
"""Hugging Face transformers, sdpa attention, in f32 (torch's bf16 product is slower on most CPUs; say bf16 to try)."""
import time

import torch
import transformers
import work


class HuggingFace:
    dtype = torch.float32

    def __init__(self, model, threads):
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=self.dtype,
                                                                       attn_implementation="sdpa").eval()

    def greedy(self, prompts, n):
        """(token ids of each, seconds of the steps behind the first)."""
        ids, cache, made, begin = torch.tensor(prompts), None, [], 0
        for step in range(n):
            out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
            made.append(ids)
            if step == 0:
                begin = time.perf_counter()
        return torch.cat(made, 1).tolist(), time.perf_counter() - begin

    def prefill(self, tokens):
        ids = torch.tensor([tokens])
        return {"seconds": work.best_of(lambda: self.model(input_ids=ids, use_cache=True, logits_to_keep=1)),
                "tokens": len(tokens)}

    def decode(self, tokens, n):
        self.greedy([tokens], 8)
        return {"seconds": self.greedy([tokens], n + 1)[1], "tokens": n}

    def generation(self, requests):
        """One batch: all prompts are of one length."""
        made, _ = self.greedy([tokens for tokens, _ in requests], requests[0][1])
        return {"tokens": sum(map(len, made)), "texts": made}

    def scoring(self, texts):
        total, n = 0.0, 0
        for tokens in texts:
            ids = torch.tensor([tokens])
            scores = torch.log_softmax(self.model(input_ids=ids).logits[0, :-1], -1)
            total += scores.gather(1, ids[0, 1:, None]).sum().item()
            n += len(tokens) - 1
        return {"tokens": n, "sum": total}


class HuggingFaceBf16(HuggingFace):
    dtype = torch.bfloat16


if __name__ == "__main__":
    import sys
    work.main(HuggingFaceBf16 if sys.argv[5:] == ["bf16"] else HuggingFace)
