"""The switches: JAX's names, unknown ones, and values set for a while."""

import pytest

from distad.config import Config, config


def test_names_with_and_without_prefix():
    with config.override(jax_enable_x64=True):
        assert config.enable_x64 is config.jax_enable_x64 is True
        config.update('enable_x64', False)
        assert config.jax_enable_x64 is False
    assert config.enable_x64 is False


def test_override_ends_with_an_exception():
    with pytest.raises(KeyError), config.override(enable_x64=True):
        raise KeyError
    assert config.enable_x64 is False


def test_unknown_names():
    for use in (lambda: config.nonsense, lambda: config.update('jax_nonsense', 1)):
        with pytest.raises(AttributeError, match='nonsense.*enable_x64'):
            use()
    with pytest.raises(AttributeError, match='config.update'):
        config.enable_x64 = True


def test_environment(monkeypatch):
    for text, value in (('1', True), ('true', True), ('0', False), ('', False)):
        monkeypatch.setenv('DISTAD_ENABLE_X64', text)
        assert Config().enable_x64 is value
    monkeypatch.setenv('DISTAD_ENABLE_X64', 'maybe')
    with pytest.raises(ValueError, match="on or off.*'maybe'"):
        Config()


def test_switches_of_programs_written_for_jax():
    with config.override(jax_num_cpu_devices=4, jax_platforms='cpu'):
        assert config.num_cpu_devices == 4
    with pytest.raises(ValueError, match='platform cpu'):
        config.update('jax_platforms', 'tpu')


def test_the_words_of_the_checks():
    for given, words in (('comm', {'comm'}), ('types, values', {'types', 'values'}), ('1', {'types'}), (True, {'types'}),
                         ('off', set())):
        with config.override(check=given):
            assert config.check == words and config.check_comm == ('comm' in words) and config.check_values == ('values' in words)
    with config.override(debug_nans=True):
        assert config.check_values and not config.check_comm
    with pytest.raises(ValueError, match="DISTAD_CHECK takes types, comm, values, .*not 'speed'"):
        config.update('check', 'comm,speed')
