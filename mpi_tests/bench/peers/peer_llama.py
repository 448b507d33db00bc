#!/usr/bin/env python3
"""llama.cpp through llama-cpp-python's bindings, continuous batching as its server does it. MODEL is a GGUF file."""
import time

import llama_cpp as llama
import numpy as np
import work

BATCH, UBATCH = 2048, 512


class Llama:
    def __init__(self, model, threads):
        self.silent = llama.llama_log_callback(lambda level, text, data: None)
        llama.llama_log_set(self.silent, None)
        llama.llama_backend_init()
        self.model = llama.llama_model_load_from_file(model.encode(), llama.llama_model_default_params())
        self.threads = threads
        self.n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.context, self.batch = None, llama.llama_batch_init(BATCH, 0, 1)

    def open(self, n_ctx, n_seq=1):
        if self.context:
            llama.llama_free(self.context)
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = n_ctx, BATCH, UBATCH, n_seq
        params.n_threads = params.n_threads_batch = self.threads
        self.context = llama.llama_init_from_model(self.model, params)

    def run(self, rows):
        """rows: [(token, position, sequence, whether its logits are wanted)], at most BATCH."""
        batch = self.batch
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        batch.n_tokens = len(rows)
        if llama.llama_decode(self.context, batch):
            raise SystemExit("llama_decode failed")

    def logits(self, i, n=1):
        at = llama.llama_get_logits_ith(self.context, i)
        return np.ctypeslib.as_array(at, shape=(n, self.n_vocab))

    def clear(self):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def feed(self, tokens, sequence=0):
        self.run([(t, i, sequence, i + 1 == len(tokens)) for i, t in enumerate(tokens)])

    def prefill(self, tokens):
        self.open(len(tokens))

        def once():
            self.clear()
            self.feed(tokens)
            self.logits(len(tokens) - 1)
        return {"seconds": work.best_of(once), "tokens": len(tokens)}

    def decode(self, tokens, n):
        self.open(len(tokens) + n + 8)
        for steps in (8, n):
            self.clear()
            self.feed(tokens)
            token, begin = int(self.logits(len(tokens) - 1).argmax()), time.perf_counter()
            for i in range(steps):
                self.run([(token, len(tokens) + i, 0, True)])
                token = int(self.logits(0).argmax())
        return {"seconds": time.perf_counter() - begin, "tokens": n}

    def generation(self, requests):
        n_seq, length = len(requests), len(requests[0][0])
        self.open(n_seq * (length + requests[0][1]), n_seq)
        made, per_batch = [[] for _ in requests], BATCH // length
        for first in range(0, n_seq, per_batch):
            some = range(first, min(first + per_batch, n_seq))
            self.run([(t, i, s, i + 1 == length) for s in some for i, t in enumerate(requests[s][0])])
            for k, s in enumerate(some):
                made[s].append(int(self.logits((k + 1) * length - 1).argmax()))
        for step in range(requests[0][1] - 1):
            self.run([(made[s][-1], length + step, s, True) for s in range(n_seq)])
            for s in range(n_seq):
                made[s].append(int(self.logits(s).argmax()))
        return {"tokens": sum(map(len, made)), "texts": made}

    def scoring(self, texts):
        self.open(max(map(len, texts)))
        total, n = 0.0, 0
        for tokens in texts:
            self.clear()
            self.run([(t, i, 0, True) for i, t in enumerate(tokens)])
            rows = self.logits(0, len(tokens))[:-1]
            largest = rows.max(1)
            sums = np.exp(rows - largest[:, None]).sum(1)
            chosen = rows[np.arange(len(tokens) - 1), tokens[1:]]
            total += float((chosen - largest - np.log(sums)).sum())
            n += len(tokens) - 1
        return {"tokens": n, "sum": total}


if __name__ == "__main__":
    work.main(Llama)
