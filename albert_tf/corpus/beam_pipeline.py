# SPDX-License-Identifier: Apache-2.0
"""The stages of making pre-training records as Apache Beam pipelines, for many machines.

Each stage is a pipeline without side inputs, so that simple runners can run it too; its tasks are
in `beam_tasks`. All machines read and write the work directory. Tokens lie there in many files. The
index of the corpus (where sentences and documents begin) is whole, and every process maps it.

The records are those of a run on one machine: the same tasks make them, with the same random draws.
"""

import contextlib
import io
import logging
import re

import tensorflow as tf

from albert_tf import files
from albert_tf.corpus import beam_tasks, corpus_files, local_stages
from albert_tf.errors import UserError
from albert_tf.records import record_index

try:
    import apache_beam as beam
    from apache_beam.options import pipeline_options
    from apache_beam.runners import runner as beam_runner
except ImportError as error:
    raise UserError(
        "--runner needs Apache Beam, which is not installed: pip install -r requirements-beam.txt"
    ) from error

_RUNNERS = {
    # Without these options, Beam would first try to download another runner, Prism.
    "directrunner": [
        *("--runner=DirectRunner", "--allow_unsafe_triggers"),
        "--default_sdk_harness_log_level=CRITICAL",
    ],
    # Beam has no short name for this runner.
    "daskrunner": ["--runner=apache_beam.runners.dask.dask_runner.DaskRunner"],
}
_LOGGERS = {"directrunner": "apache_beam", "daskrunner": "distributed"}
_USER_ERROR = re.compile(r"UserError: (.*?)(?: \[while running .*)?$", re.MULTILINE)


class BeamStages:
    """The stages as pipelines; use it in place of `local_stages.LocalStages`.

    Args:
        runner: str, a name that Beam knows, such as DataflowRunner.
        options: list of str, further pipeline options: "region=us-east1" or "--region=us-east1".

    Raises:
        UserError: Apache Beam is not installed (when this module is imported), or has no such
            runner.
    """

    is_shared = True  # the work directory, between machines
    is_whole = staticmethod(beam_tasks.is_whole)
    write_documents = staticmethod(beam_tasks.write_documents)

    def __init__(self, runner, options=()):
        given = [f"--{option.strip().removeprefix('--')}" for option in options]
        self._options = [*_RUNNERS.get(runner.lower(), [f"--runner={runner}"]), *given]
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):  # argparse would print all existing options
                parsed = pipeline_options.PipelineOptions(self._options)
                beam_runner.create_runner(parsed.get_all_options()["runner"])  # it may add options
                unknown = parsed.get_all_options(retain_unknown_options=True).keys()
                unknown -= parsed.get_all_options().keys()
        except (ValueError, ImportError, AttributeError) as error:
            raise UserError(f"--runner={runner}: {error}") from error
        except SystemExit as error:
            reason = said.getvalue().rpartition("error: ")[2].strip()
            raise UserError(f"--beam_pipeline_options={','.join(options)}: {reason}") from error
        if runner.lower() in _LOGGERS:  # this process reports their errors itself
            logging.getLogger(_LOGGERS[runner.lower()]).setLevel(logging.CRITICAL)
        if unknown:  # a cluster may know them
            print(f"Pipeline options that Beam leaves to the runner: {', '.join(sorted(unknown))}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def _run(self, stage, items, *steps):
        """Runs a pipeline and waits for its end.

        Args:
            stage: str, for messages.
            items: list, what it begins with.
            *steps: (name, beam.PTransform) of the steps.

        Raises:
            UserError: a task found bad input.
        """
        print(f"{stage}: {len(items)} tasks to begin with", flush=True)
        try:
            pipeline = beam.Pipeline(options=pipeline_options.PipelineOptions(self._options))
            collection = pipeline | "Begin" >> beam.Create(items) | "Share" >> beam.Reshuffle()
            for name, step in steps:
                collection = collection | name >> step
            result = pipeline.run()
            state = result.wait_until_finish()
            if client := getattr(result, "client", None):  # else Dask's local cluster keeps running
                client.close()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if found := _USER_ERROR.search(text):
                raise UserError(found[1]) from error
            if "while running" in text or "Traceback" in text:
                raise  # a defect of a task
            raise UserError(f"--runner: {' '.join(text.split())}") from error
        if state not in (None, beam_runner.PipelineState.DONE):
            raise UserError(f"{stage}: the pipeline ended in state {state}; see the runner's log")

    def identify(self, paths):
        """Names, sizes and times of files, to detect changes without reading the files here."""
        return [[path, *record_index.state(path).values()] for path in paths]

    def write_corpus(self, paths, form, encoder, directory):
        """Tokenises text files; as `LocalStages.write_corpus`, but tokens lie in parts.

        Args:
            paths: list of str.
            form: text_files.Format.
            encoder: line_encoder.LineEncoder.
            directory: str, where the index is written; the tokens are next to it.
        """
        tokens = beam_tasks.tokens_of(directory)
        try:
            with files.replacing_directory(directory) as name:
                self._run(
                    "tokenising",
                    list(enumerate(paths)),
                    ("Read", beam.FlatMap(beam_tasks.text_parts, form)),
                    ("ShareText", beam.Reshuffle()),
                    ("Tokenise", beam.Map(beam_tasks.tokenised, encoder, tokens)),
                    ("Gather", beam.GroupByKey()),
                    ("Index", beam.Map(beam_tasks.write_index, name, directory)),
                )
                has_index = bool(tf.io.gfile.listdir(name))  # else there was not one byte
                found = corpus_files.open_corpus(name).num_documents if has_index else 0
                corpus_files.check_not_empty(found, paths)
        except BaseException:
            files.remove(tokens)
            raise

    def of_documents(self, directory, make, path):
        """Writes the result of `make` for documents; as `local_stages.LocalStages.of_documents`."""
        num_documents = corpus_files.open_corpus(directory).num_documents
        self._run(
            "comparing",
            list(range(0, num_documents, local_stages.DOCUMENTS_TOGETHER)),
            ("Request", beam.FlatMap(beam_tasks.document_requests, directory)),
            ("ToTokens", beam.GroupByKey()),
            ("Answer", beam.FlatMap(beam_tasks.segments, directory)),
            ("ToDocuments", beam.GroupByKey()),
            ("Hash", beam.Map(beam_tasks.of_documents, make)),
            ("Gather", beam.GroupByKey()),
            ("Write", beam.Map(beam_tasks.write_in_order, path)),
        )

    def plan(self, planner, corpus):
        """The figures of all plans, which are made if they are not there yet."""
        parts = planner.parts(corpus)
        if missing := [part for part in parts if not planner.figures(part[0])]:
            self._run("planning", missing, ("Plan", beam.Map(beam_tasks.silently, planner)))
        return [planner.figures(number) for number, _ in parts]

    def write(self, writer, corpus, missing):
        """The figures of the output files `missing` (list of int), which are written."""
        plans = [plan for plan, count in enumerate(writer.counts) if count]
        if missing:
            self._run(
                "writing",
                plans,
                ("Request", beam.FlatMap(beam_tasks.requests, writer, frozenset(missing))),
                ("ToTokens", beam.GroupByKey()),
                ("Answer", beam.FlatMap(beam_tasks.segments, writer.corpus_directory)),
                ("ToBlocks", beam.GroupByKey()),
                ("Mask", beam.Map(beam_tasks.record_block, writer)),
                ("ToFiles", beam.GroupByKey()),
                ("Write", beam.Map(beam_tasks.write_file, writer)),
            )
        return list(map(writer.finished, missing))
