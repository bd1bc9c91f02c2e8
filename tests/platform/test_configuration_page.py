"""docs/configuration.md says of every variable what it is."""

from dpp.platform.config import Settings
from dpp_cli.docs import configuration_page


def test_the_page_is_what_the_settings_say() -> None:
    """Write it anew with `python -m dpp_cli.docs.configuration_page`."""
    assert configuration_page.PATH.read_text(encoding="utf-8") == configuration_page.render()


def test_every_variable_is_described_alike_wherever_it_is_read() -> None:
    """A description stands with its field; two models that read one variable say the same of it."""
    for variable, found in configuration_page.read_by().items():
        told = {field.description for _, field in found}
        assert len(told) == 1, variable
        assert None not in told, variable


def test_no_settings_model_is_left_out() -> None:
    """Every model that a function's wiring may load: those of its settings, whatever they inherit."""
    told = set(configuration_page.read_by())
    models: list[type[Settings]] = [Settings]
    for model in models:
        models += model.__subclasses__()
    shipped = {
        name
        for model in models
        if model.__module__.startswith(("dpp.", "dpp_"))
        for name in model.variables()
    }
    assert shipped - told == set()
