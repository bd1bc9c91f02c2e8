"""docs/configuration.md describes every variable."""

from dpp.platform.config import Settings
from dpp_cli.docs import configuration_page


def test_the_page_is_up_to_date() -> None:
    """Generate it with `python -m dpp_cli.docs.configuration_page`."""
    assert configuration_page.PATH.read_text(encoding="utf-8") == configuration_page.render()


def test_every_variable_has_one_description() -> None:
    """Two models that read the same variable describe it alike."""
    for variable, found in configuration_page.read_by().items():
        descriptions = {field.description for _, field in found}
        assert len(descriptions) == 1, variable
        assert None not in descriptions, variable


def test_no_settings_model_is_left_out() -> None:
    """Every model that a function's settings inherit is on the page."""
    documented = set(configuration_page.read_by())
    models: list[type[Settings]] = [Settings]
    for model in models:
        models += model.__subclasses__()
    shipped = {name for model in models if model.__module__.startswith(("dpp.", "dpp_")) for name in model.variables()}
    assert shipped - documented == set()
