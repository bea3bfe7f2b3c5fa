"""The times of inference that `benchmarks/inference.py` prints."""

import pytest


def test_a_row_has_the_times_and_their_shares_of_the_best_peer(bench_modules, monkeypatch, capsys):
    inference = bench_modules("inference")
    asked = []

    def measure(pythons, network, batch, seconds, rounds):
        asked.append((*pythons, network, batch))
        return {
            "compiled": 2.0,
            "predict": 5.0,
            "eager": 300.0,
            "ONNX Runtime": 8.0,
            "PyTorch": 4.0,
        }

    monkeypatch.setattr(inference, "measure", measure)
    inference.main(["mlp", "--torch", "python", "--batches", "3"])
    assert asked == [("trainkit", "onnxruntime", "torch", "mlp", 3)]
    lines = capsys.readouterr().out.splitlines()
    expected = "| mlp: Dense 784, 256, 10 | 3 | 2 | 5 | 300 | 8 | 4 | 0.50 | 1.25 | 75.00 |"
    assert lines[-1] == expected
    assert {line.count("|") for line in lines} == {expected.count("|")}


@pytest.mark.parametrize("network", ["mlp", "gru", "unet", "digits", "encoder"])
def test_all_modes_run_one_network(bench_modules, monkeypatch, network):
    inference = bench_modules("inference")
    runs = inference.FRAMEWORKS["trainkit"](network, inference.inputs_of(network, 2))
    assert tuple(runs) == inference.MODES["trainkit"]
    modes = [inference.Mode(run, 0.0) for run in runs.values()]
    assert [mode.sample() >= 0 for mode in modes] == [True] * 3
    assert modes[0].mean
    assert [mode.mean for mode in modes] == pytest.approx([modes[0].mean] * 3)


def test_an_unknown_network_is_an_error(bench_modules, capsys):
    with pytest.raises(SystemExit):
        bench_modules("inference").main(["nobody"])
    assert "no network nobody; there are MobileNetV2, ResNet50, unet" in capsys.readouterr().err
