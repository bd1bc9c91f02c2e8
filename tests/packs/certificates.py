"""A certificate authority for one test module: what it signs is trusted by its own client context alone."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_Key = ec.EllipticCurvePrivateKey


class Authority:
    """Signs server certificates; keeps files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _sign("authority", self._key, self._key, "authority", is_authority=True)

    def client_context(self) -> ssl.SSLContext:
        """Trusts this authority, and checks names as production does."""
        pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=pem)

    def server_context(self, name: str, *, trusted: bool = True) -> ssl.SSLContext:
        """Shows a certificate for `name`, a host name or an address; untrusted: signed by a stranger."""
        key = ec.generate_private_key(ec.SECP256R1())
        signer = self._key if trusted else ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(name, key, signer, "authority")
        file = self._folder / f"{name}-{trusted}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _sign(name: str, key: _Key, signer: _Key, issuer: str, *, is_authority: bool = False) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    authority_key = x509.SubjectKeyIdentifier.from_public_key(signer.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([_general_name(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_key), critical=False)
        .add_extension(_usage(signs=is_authority), critical=True)
        .sign(signer, hashes.SHA256())
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
