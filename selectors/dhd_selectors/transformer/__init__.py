"""The `transformer` selector: a cross-encoder that reads the problem, the message and the pool.

`inputs.py` turns rows into token ids, `encoder.py` runs the pretrained model, `probe.py` fits a linear head on its
frozen states, `training.py` fine-tunes the upper layers from there, `checkpoints.py` makes that resumable, and
`selector.py` is the scikit-learn estimator around them. Needs the `neural` extra (torch, transformers, safetensors).
"""

from dhd_selectors.transformer.selector import TransformerSelector

__all__ = ["TransformerSelector"]
