import os

from zarrstack_encrypt import Encrypt

from zarrstack import StorageTransformer
from zarrstack.testing import LayerTests

os.environ["ZARR_KEY"] = 32 * "5a"


class TestEncrypt(LayerTests):
    def layers(self) -> list[StorageTransformer]:
        return [Encrypt()]
