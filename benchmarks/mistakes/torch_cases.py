"""The same mistakes in PyTorch, where it has such a thing, under the names of `keras_cases`."""

import os
import tempfile

import numpy as np
import torch
from torch import nn

X, BINARY, CLASS = torch.randn(64, 8), torch.ones(64), torch.arange(64) % 3
SERIES = torch.randn(4, 10, 3)


def _step(model, loss, x=X, y=BINARY):
    optimizer = torch.optim.Adam(model.parameters())
    loss(model(x), y).backward()
    optimizer.step()


def _frozen():
    model = nn.Linear(8, 1)
    model.requires_grad_(False)
    _step(model, nn.MSELoss(), y=BINARY[:, None])


class _NoBase(nn.Module):
    def __init__(self):
        self.dense = nn.Linear(8, 1)


def _load_other():
    path = os.path.join(tempfile.mkdtemp(), "m.pt")
    torch.save(nn.Linear(8, 4).state_dict(), path)
    nn.Linear(8, 5).load_state_dict(torch.load(path))


def _with(value):
    x = X.clone()
    x[2, 3] = value
    return x


CASES = {
    "inputs of another width": lambda: nn.Linear(10, 1)(X),
    "a layer built for another width": lambda: nn.Linear(8, 4)(X[:, :5]),
    "a matrix product that does not fit": lambda: X @ torch.ones(5, 2),
    "a sum that does not broadcast": lambda: X + torch.ones(64, 5),
    "images without channels": lambda: nn.Conv2d(1, 2, 3)(torch.zeros(4, 8, 8)),
    "a kernel larger than the image": lambda: nn.Conv2d(1, 2, 5)(torch.zeros(1, 1, 3, 3)),
    "a recurrent layer on the last step of another": lambda: nn.LSTM(4, 4)(
        nn.LSTM(3, 4, batch_first=True)(SERIES)[0][:, -1]
    ),
    "a reshape that does not divide": lambda: X.reshape(64, 3, 3),
    "a concatenation of other sizes": lambda: torch.cat([X, X[:32]], dim=1),
    "a word beyond the embedding": lambda: nn.Embedding(10, 4)(torch.tensor([[1, 99]])),
    "two arrays of other lengths": lambda: torch.utils.data.TensorDataset(X, BINARY[:50]),
    "outputs that do not fit the targets": lambda: nn.MSELoss()(
        nn.Linear(8, 3)(X), torch.ones(64, 2)
    ),
    "a shape with a float": lambda: nn.Linear(8, 3.5),
    "a label beyond the classes": lambda: nn.CrossEntropyLoss()(nn.Linear(8, 2)(X), CLASS),
    "logits where probabilities are taken": lambda: nn.BCELoss()(
        nn.Linear(8, 1)(X)[:, 0] * 9, BINARY
    ),
    "probabilities where logits are taken": lambda: nn.BCEWithLogitsLoss()(
        torch.sigmoid(nn.Linear(8, 1)(X))[:, 0], BINARY
    ),
    "softmax over one unit": lambda: nn.Softmax(-1)(nn.Linear(8, 1)(X)),
    "relu before a crossentropy": lambda: nn.CrossEntropyLoss()(
        torch.relu(nn.Linear(8, 3)(X)), CLASS
    ),
    "sigmoid of classes that exclude one another": lambda: nn.CrossEntropyLoss()(
        torch.sigmoid(nn.Linear(8, 3)(X)), CLASS
    ),
    "labels of one and two": lambda: nn.BCELoss()(
        torch.sigmoid(nn.Linear(8, 1)(X))[:, 0], BINARY + 1
    ),
    "a model whose weights are all frozen": _frozen,
    "an optimizer that is misspelt": lambda: torch.optim.Adamm(nn.Linear(8, 1).parameters()),
    "a batch size of three and a half": lambda: torch.utils.data.DataLoader(X, batch_size=3.5),
    "a class without a weight": lambda: nn.CrossEntropyLoss(torch.ones(2))(
        nn.Linear(8, 3)(X), CLASS
    ),
    "a negative learning rate": lambda: torch.optim.Adam(nn.Linear(8, 1).parameters(), -0.1),
    "a subclass that does not call its base": _NoBase,
    "NaN in what is trained on": lambda: _step(
        nn.Linear(8, 1), nn.MSELoss(), _with(float("nan")), BINARY[:, None]
    ),
    "NaN in validation data": lambda: nn.MSELoss()(
        nn.Linear(8, 1)(_with(float("nan"))), BINARY[:, None]
    ),
    "inf in validation data": lambda: nn.MSELoss()(
        nn.Linear(8, 1)(_with(float("inf"))), BINARY[:, None]
    ),
    "labels that are texts": lambda: torch.tensor(np.array(["cat", "dog"])),
    "a column of texts": lambda: torch.tensor(np.array([1.0, "Rome"], object)),
    "lists of other lengths": lambda: torch.tensor([[1.0, 2.0], [3.0]]),
    "a layer that is misspelt": lambda: nn.Liner(3, 3),
    "an argument of a layer that is misspelt": lambda: nn.Linear(3, 3, bais=False),
    "a layer class in place of a layer": lambda: nn.Sequential(nn.Linear),
    "a folder that cannot be written to": lambda: torch.save({}, "/proc/model.pt"),
    "weights of another model": _load_other,
    "a layer of 36 TiB": lambda: nn.Linear(3_000_000, 3_000_000),
}
