"""structured.py - a pydantic class that clients request as the answer's form, and a check of the answers."""
from typing import List, Literal, Optional

from pydantic import BaseModel, Field


class Place(BaseModel):
    town: str = Field(min_length=1, max_length=5)
    above_sea: bool


class River(BaseModel):
    """A river."""

    name: str = Field(min_length=1, max_length=6)
    km: int = Field(ge=0, le=9999)
    sea: Optional[Literal['Baltic', 'North']]
    mouth: Place
    sources: List[Place] = Field(max_length=2)


def check(river):
    assert isinstance(river, River), river
    assert 1 <= len(river.name) <= 6 and 0 <= river.km <= 9999 and river.sea in ('Baltic', 'North', None), river
    assert isinstance(river.mouth, Place) and len(river.sources) <= 2, river
