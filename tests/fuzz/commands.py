# SPDX-License-Identifier: Apache-2.0
"""The command lines that are tried. A value that is a name of the corpus is an input."""

_LENGTH = "--max_seq_length=32"
_RECORDS = f"{_LENGTH} --max_predictions_per_seq=5"
_CREATE = f"create_pretraining_data.py --input_file=text.txt {_RECORDS} --dupe_factor=2"
_PRETRAIN = (
    f"run_pretraining.py --albert_config_file=config.json --input_file=train.tfrecord {_RECORDS} "
    "--train_batch_size=2 --eval_batch_size=4 --max_eval_steps=2 --num_train_steps=2 "
    "--num_warmup_steps=0 --learning_rate=0.001 --save_checkpoints_steps=1 --seed=1"
)
_MODEL = "--albert_config_file=config.json --spm_model_file=spm.model"
_FRESH = "--allow_random_init"
_TUNE = f"{_LENGTH} --train_batch_size=2 --save_checkpoints_steps=1 --seed=1"
_COLA = f"run_classifier.py {_TUNE} --task_name=CoLA --data_dir=glue --train_step=1"
_TSV = (
    f"run_classifier.py {_MODEL} {_TUNE} --task_name=tsv --data_dir=tsv --text_column=first "
    "--text_pair_column=second --label_column=label --train_step=1"
)
_NER = f"run_classifier.py {_MODEL} {_TUNE} --task_name=ner --data_dir=conll --train_step=1"
_RACE = (
    f"run_race.py {_MODEL} {_TUNE} --data_dir=race --max_qa_length=10 --train_step=1 "
    "--warmup_step=0"
)
_SQUAD = (
    f"run_squad.py {_MODEL} {_TUNE} --doc_stride=10 --max_query_length=10 --max_answer_length=8 "
    "--num_train_epochs=0.25"
)
_SQUAD1 = f"{_SQUAD} --train_file=squad1.json --predict_file=squad1.json"
_SQUAD2 = f"{_SQUAD} --train_file=squad2.json --predict_file=squad2.json"
_ALL = "--do_train --do_eval --do_predict"
_EVALUATE = "--nodo_train --do_eval"
_PREDICT = "--nodo_train --nodo_eval --do_predict"
_EXPORT = "--nodo_train --nodo_eval"
_RELEASED = "--albert_directory=pretrained --checkpoint_name=model.ckpt-2"
_METRICS = "albert_tf.squad_metrics --predictions_file=answers.json"

# What scripts make for the corpus: name -> command; a level needs what is on those before.
MADE = (
    {
        "squad2_run": f"{_SQUAD2} {_FRESH} --do_train --do_predict --output_dir=squad2_run",
        "train.tfrecord": f"{_CREATE} --spm_model_file=spm.model --output_file=train.tfrecord",
        "tuned": f"{_TSV} {_FRESH} {_ALL} --output_dir=tuned",
        "words_run": f"{_NER} {_FRESH} {_ALL} --output_dir=words_run",
        "squad1_run": f"{_SQUAD1} {_FRESH} --do_train --do_predict --output_dir=squad1_run",
        "race_run": f"{_RACE} {_FRESH} {_ALL} --output_dir=race_run",
    },
    {
        "pretrained": f"{_PRETRAIN} --output_dir=pretrained",
        "squad2_export": f"{_SQUAD2} --nodo_train --output_dir=squad2_run "
        "--export_dir=squad2_export",
        "tuned_export": f"{_TSV} {_EXPORT} --output_dir=tuned --export_dir=tuned_export",
    },
    {"hub": f"export_to_tfhub.py {_RELEASED} --export_path=hub"},
)

# What is run on damaged input: name, which begins with the script's -> command.
COMMANDS = {
    "create_pretraining_data": f"{_CREATE} --spm_model_file=spm.model --output_file=out/a,out/b",
    "create_pretraining_data_words": f"{_CREATE} --vocab_file=vocab.txt --output_file=out/a",
    "run_pretraining_train": f"{_PRETRAIN} --do_eval --output_dir=out",
    "run_pretraining_init": f"{_PRETRAIN} --output_dir=out "
    "--init_checkpoint=pretrained/model.ckpt-2",
    "run_pretraining_resume": f"{_PRETRAIN} --output_dir=pretrained --num_train_steps=3",
    "run_pretraining_eval": f"{_PRETRAIN} {_EVALUATE} --output_dir=pretrained",
    "run_classifier_train": f"{_COLA} {_MODEL} {_FRESH} {_ALL} --output_dir=out",
    "run_classifier_init": f"{_TSV} --init_checkpoint=pretrained --do_train --output_dir=out",
    "run_classifier_hub": f"{_COLA} --albert_hub_module_handle=hub --do_train --output_dir=out",
    "run_classifier_eval": f"{_TSV} {_EVALUATE} --output_dir=tuned",
    "run_classifier_predict": f"{_TSV} {_PREDICT} --output_dir=tuned",
    "run_classifier_export": f"{_TSV} {_EXPORT} --output_dir=tuned --export_dir=out",
    "run_classifier_words_train": f"{_NER} {_FRESH} {_ALL} --output_dir=out",
    "run_classifier_words_predict": f"{_NER} {_PREDICT} --output_dir=words_run",
    "run_race_train": f"{_RACE} {_FRESH} {_ALL} --output_dir=out",
    "run_race_predict": f"{_RACE} {_PREDICT} --output_dir=race_run",
    "run_squad_1_train": f"{_SQUAD1} {_FRESH} --do_train --do_predict --output_dir=out",
    "run_squad_1_predict": f"{_SQUAD1} --nodo_train --do_predict --output_dir=squad1_run",
    "run_squad_2_train": f"{_SQUAD2} {_FRESH} --do_train --do_predict --output_dir=out",
    "run_squad_2_predict": f"{_SQUAD2} --nodo_train --do_predict --output_dir=squad2_run",
    "run_squad_2_export": f"{_SQUAD2} --nodo_train --output_dir=squad2_run --export_dir=out",
    "export_to_tfhub_model": f"export_to_tfhub.py {_RELEASED} --export_path=out",
    "export_to_tfhub_preprocessing": f"export_to_tfhub.py {_RELEASED} --export_path=out "
    "--export_type=preprocessing",
    "export_checkpoints_tf1": f"export_checkpoints.py {_RELEASED} --export_path=out/model.ckpt",
    "export_checkpoints_hf": f"export_checkpoints.py {_RELEASED} --export_path=out "
    "--export_format=hf",
    "predict_classifier": "predict.py --saved_model=tuned_export --input_file=examples.txt "
    "--output_file=out.jsonl",
    "predict_squad": "predict.py --saved_model=squad2_export --input_file=examples.jsonl "
    "--output_file=out.jsonl",
    "predict_weights": "predict.py --model=tuned --input_file=examples.txt --output_file=out.jsonl",
    "predict_masks": "predict.py --model=pretrained --spm_model_file=spm.model "
    "--fill_mask=[MASK] --output_file=out.jsonl",
    "train_sentencepiece": "train_sentencepiece.py --input_file=text.txt --model_prefix=out/spm "
    "--vocab_size=60",
    "squad_metrics_1": f"{_METRICS} --data_file=squad1.json",
    "squad_metrics_2": f"{_METRICS} --data_file=squad2.json --na_prob_file=odds.json",
}

# What is killed: name -> command, patterns of the files that come out the same bytes every time.
WRITERS = {
    "create_pretraining_data": (COMMANDS["create_pretraining_data"], ("out/[ab]",)),
    "run_pretraining": (COMMANDS["run_pretraining_train"], ()),
    "run_classifier": (f"{COMMANDS['run_classifier_train']} --export_dir=out/export", ()),
    "run_race": (COMMANDS["run_race_train"], ()),
    "run_squad_1": (COMMANDS["run_squad_1_train"], ()),
    "run_squad_2": (f"{COMMANDS['run_squad_2_train']} --export_dir=out/export", ()),
    "export_to_tfhub": (COMMANDS["export_to_tfhub_model"], ()),
    "export_checkpoints_tf1": (COMMANDS["export_checkpoints_tf1"], ("out/*",)),
    "export_checkpoints_hf": (COMMANDS["export_checkpoints_hf"], ("out/*",)),
    "predict": (COMMANDS["predict_classifier"], ("out.jsonl",)),
    "make_corpus": (
        "demo.make_corpus --roots=packages --heldout_every=2 --min_sentences=1 "
        "--train_file=out/train.txt --heldout_file=out/heldout.txt",
        ("out/*",),
    ),
    "train_sentencepiece": (COMMANDS["train_sentencepiece"], ("out/*.vocab",)),
}
