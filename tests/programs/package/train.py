"""A training in a package, with workers that load its data, evaluated now and then."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from .sizes import WIDTH


class Data(Dataset):
    def __init__(self):
        self.scale = nn.Linear(WIDTH, WIDTH)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        with torch.no_grad():
            return self.scale(torch.ones(WIDTH))


def main():
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        model.train()
        for batch in DataLoader(Data(), num_workers=1):
            model(batch).sum().backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for batch in DataLoader(Data(), num_workers=1):
                model(batch)


if __name__ == "__main__":
    main()
