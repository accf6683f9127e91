"""Names of hosts and people: one set for most splits, another for the split test_names."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_HOSTS = _words(
    """
    alder amber aspen basil beech birch cedar clover coral crane daisy delta dove ember falcon
    fern finch flint garnet ginger hazel heron holly indigo iris ivory jasmine juniper laurel
    lemon lilac linden lotus maple marble mint myrtle nettle oak olive onyx opal orchid otter
    pearl pepper pine plum poplar quartz raven reed robin rowan ruby sable sage sorrel swan
    thistle topaz tulip violet walnut willow wren yarrow zinnia
    """
)
_PEOPLE = _words(
    """
    abel ada alma amir anna arno basia bela bruno carla chen clara dario dina edda elif emil
    enzo erika fadi felix fiona gerd gina hana hugo ida igor ines ivan jana jonas julia kai
    karim lara leon lina luca maja marek mila nadia nils nora olga omar otto paula pavel petra
    rania rosa ruth sami sara sven tara theo tilda tomas ulla vera viktor wanda xenia yara
    yusuf zora
    """
)
_NEW_HOSTS = _words(
    """
    apollo ares argo atlas aurora boreas calypso castor ceres chronos comet corvus cosmos
    cygnus draco echo eos eris europa gaia galaxy ganymede hades helios hera hermes hydra
    icarus io janus juno jupiter kepler leda luna lyra mars medusa mercury midas mimas nebula
    nemesis neptune nova oberon orion pandora pegasus perseus phobos pluto pollux quasar rhea
    saturn sirius sol titan triton umbra urania vega venus vesta vulcan zenith zephyr
    """
)
_NEW_PEOPLE = _words(
    """
    agnes alan amara andre aziza bao bianca boris camila cedric dalia dmitri dora eero elena
    esther farid filip gabor greta haruto heidi ilse imani ismail jakub jorge kaito katya kofi
    lars leila lorenz lucia magda malik mateo meera milan nadir naomi niko noor oleg oskar pia
    pilar quentin ravi remi ren rita samir silvia stefan sunil svea tariq thea tuva uma
    valentin veda viggo wen willem yael yoko zain zelda zeno
    """
)

_NAMES = {False: (_HOSTS, _PEOPLE), True: (_NEW_HOSTS, _NEW_PEOPLE)}


def names(split: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of hosts and of people that `split` draws from."""
    return _NAMES[split == "test_names"]
