"""In etcd, values are bound to the keys that etcd has, prefix and all, so that a kube-apiserver can decrypt them."""

from __future__ import annotations

import asyncio

from databases import EtcdServer

from oarlock.meta.kinds import GroupResource
from oarlock.storage.encryption.backend import EncryptedBackend
from oarlock.storage.encryption.ciphers import AesGcm
from oarlock.storage.encryption.rules import EncryptionRules, NamedCipher, Transformer
from oarlock.storage.etcd.address import etcd_address
from oarlock.storage.etcd.backend import EtcdBackend
from oarlock.testing.clock import VirtualClock


def test_what_etcdctl_shows_decrypts_with_the_key_it_shows(etcd: EtcdServer) -> None:
    url = etcd.fresh()
    cipher, prefix = AesGcm(bytes(32)), b"k8s:enc:aesgcm:v1:k:"
    rules = EncryptionRules({GroupResource("*", "*"): Transformer([NamedCipher(prefix, cipher)], "a test")})
    address = etcd_address(url)

    async def scenario() -> None:
        backend = EncryptedBackend(EtcdBackend(address, VirtualClock()), rules)
        await backend.start()
        try:
            await backend.put("/registry/example.com/things/a", b"{}", expect=0)
            kv, _ = await backend.get("/registry/example.com/things/a")
            assert kv is not None
            assert kv.value == b"{}"
            raw, _ = await backend._inner.get("/registry/example.com/things/a")
            assert raw is not None
            key = f"{address.prefix}/example.com/things/a"
            assert key in etcd.etcdctl("get", "--keys-only", "--prefix", address.prefix)
            assert cipher.decrypt(raw.value.removeprefix(prefix), key.encode()) == b"{}"
        finally:
            await backend.close()

    asyncio.run(scenario())
