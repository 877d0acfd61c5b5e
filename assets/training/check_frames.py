"""Check the texts written by hand, and show some.

    python check_frames.py [FOLDER_OF_EVALUATION_SETS ...] [--show N] [--seed N]

Fails where a slot is never used, where a text cannot be filled, where two texts
are alike, or where a text shares a sentence or six words in a row with an
evaluation set.
"""
import argparse
import collections
import glob
import json
import os
import random
import re
import sys

import prose
import prose_tasks
from generate import Gen

SHINGLE = 6


def plain_words(text):
    return re.findall(r"[a-z0-9']+", text.lower())


def wordings(parts, limit=64):
    """Literal pieces of a text with every alternative; made values are gaps."""
    out = [""]
    for p in parts:
        if p[0] == "lit":
            choices = [p[1]]
        elif p[0] == "alt":
            choices = p[1]
        elif p[0] == "slot" and p[3]:
            choices = [s for s, _ in p[3]]
        else:
            choices = ["\0"]
        out = [o + c for o in out for c in choices]
        if len(out) > limit:  # every choice once, though not with every other
            out = random.Random(len(out)).sample(out, limit) + [max(out, key=len)]
    return out


def sentences(text):
    return [s for s in re.split(r"(?<=[.!?])\s+|\n+", text) if s.strip()]


def pieces_of(text):
    """(sentences, shingles) of a text, in plain words. A gap ends both."""
    whole, runs = set(), set()
    for s in sentences(text):
        w = plain_words(s.replace("\0", " "))
        if "\0" not in s and len(w) >= 4:
            whole.add(" ".join(w))
        for run in s.split("\0"):
            w = plain_words(run)
            runs.update(" ".join(w[i:i + SHINGLE]) for i in range(len(w) - SHINGLE + 1))
    return whole, runs


def evaluation(folders):
    """Sentences and shingles of the evaluation sets, with where they stand."""
    whole, runs, n = {}, {}, 0
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
            for line in open(path, encoding="utf-8"):
                d = json.loads(line)
                n += 1
                for s in sentences(d["text"]):
                    w = plain_words(s)
                    if len(w) >= 4:
                        whole[" ".join(w)] = d["id"]
                w = plain_words(d["text"])
                runs.update({" ".join(w[i:i + SHINGLE]): d["id"] for i in range(len(w) - SHINGLE + 1)})
    return whole, runs, n


def all_texts(kinds):
    """(where, wordings) of everything written by hand."""
    for k in kinds.values():
        for f in k.frames:
            # Sentence by sentence, so that all alternatives fit.
            yield f.where, [w for s in f.sentences for w in wordings(s)]
    for i, parts in enumerate(prose_tasks.FILLERS):
        yield f"_fillers.txt, text {i + 1}", wordings(parts)
    for name, labels in prose_tasks.LABELS.items():
        for texts in labels.values():
            for t in texts:
                yield f"_labels*.txt, {name}", wordings(prose.loose_parts(t))


def unfilled(frames):
    """Texts with a slot that no value can be made for."""
    g = Gen(1, compact=True, prose=1.0)
    for f in frames:
        try:
            prose_tasks.write_text(g, f, whole=True)
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            yield f"{f.where}: {e}"
    for name, labels in prose_tasks.LABELS.items():
        for t in (t for texts in labels.values() for t in texts):
            try:
                if "{~" in prose_tasks.label_text(g, t):
                    yield f"_labels*.txt, {name}, {t[:40]!r}: a value inside a choice"
            except (AttributeError, KeyError, TypeError, ValueError) as e:
                yield f"_labels*.txt, {name}, {t[:40]!r}: {e}"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folders", nargs="*")
    ap.add_argument("--show", type=int, default=0)
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    kinds, wrong = prose_tasks.KINDS, []
    frames = [f for k in kinds.values() for f in k.frames]
    used = collections.Counter((f.kind.name, s) for f in frames for s in f.slots)
    for k in kinds.values():
        for s in k.slots:
            if not used[k.name, s]:
                wrong.append(f"{k.name}: no text uses {s}")
        keys = collections.Counter(x for s in k.slots.values() for x in s.keys)
        wrong += [f"{k.name}: {n} slots have the key {x}" for x, n in keys.items() if n > 1]
    seen = {}
    for f in frames:
        key = " ".join(plain_words(re.sub(r"\{[^{}]*\}", " ", f.text)))
        if key in seen:
            wrong.append(f"{f.where} is like {seen[key]}")
        seen[key] = f.where
    wrong += unfilled(frames)
    whole, runs, n = evaluation(a.folders)
    for where, texts in all_texts(kinds):
        for t in texts:
            own, own_runs = pieces_of(t)
            wrong += [f"{where}: the sentence {s!r} is in {whole[s]}" for s in own if s in whole]
            wrong += [f"{where}: {s!r} is in {runs[s]}" for s in own_runs if s in runs]
    labels = prose_tasks.LABELS
    lengths = sorted(len(f.text.split()) for f in frames)
    print(f"{len(frames)} texts of {len(kinds)} kinds in {len({f.where.split(':')[0] for f in frames})} files, {sum(f.held_out for f in frames)} held out")
    print(f"{sum(len(k.slots) for k in kinds.values())} slots, {sum(len(s.keys) for k in kinds.values() for s in k.slots.values())} key names, {sum(used.values())} uses of a slot in a text")
    print(f"words in a text: shortest {lengths[0]}, middle {lengths[len(lengths) // 2]}, longest {lengths[-1]}, all {sum(lengths)}")
    print(f"{sum(len(p[1] if p[0] == 'alt' else p[3]) for f in frames for p in f.parts if p[0] == 'alt' or p[0] == 'slot' and p[3])} wordings to choose from inside texts")
    print(f"{len(labels)} label sets, {sum(map(len, labels.values()))} labels, {sum(len(t) for s in labels.values() for t in s.values())} texts; {len(prose_tasks.FILLERS)} fillers")
    print(f"compared with {n} evaluation texts")
    g, r = Gen(a.seed, compact=True, prose=1.0, usual=1.0), random.Random(a.seed)
    for _ in range(a.show):
        d = prose_tasks.record(g) if r.random() < .8 else prose_tasks.label(g)
        print(f"\n--- {d.get('frame', d['task'])}\n{d['text']}\n=> {d['answer']}")
    for w in dict.fromkeys(wrong):
        print("wrong:", w)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
