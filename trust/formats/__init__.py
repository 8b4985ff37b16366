"""What a file is, judged by its bytes; what a version is, judged by its files together.

`recognised` is the table of what is told by name and first bytes alone. A format has a file of its own where
something is read out of it: tensors and facts (`safetensors`, `gguf`, `sentencepiece`, with `network` and
`summary`), paths that it loads from (`onnx`), code that it carries or names (`code`, `pickle_scan`), texts
(`text`), and what an approver should know of them (`templates`, `secrets`, `warnings`). `identification` puts
it together.
"""
