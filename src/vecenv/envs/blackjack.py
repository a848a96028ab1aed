"""Blackjack against a dealer who draws to 17. Bit-equal to Gymnasium's."""

from __future__ import annotations

from typing import ClassVar

from gymnasium.spaces import Discrete, Tuple

from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import integers


def draw_card(rng):
    """Ace (1) to ten; jack, queen and king are tens."""
    return min(integers(rng, 0, 13) + 1, 10)


def worth(total, has_ace):
    """Value of a hand: an ace counts eleven unless that would be too much."""
    return total + 10 if has_ace and total <= 11 else total


def score(total, has_ace):
    """Final score of a hand: zero if it is bust."""
    value = worth(total, has_ace)
    return 0 if value > 21 else value


def is_natural(total, has_ace, cards):
    """Whether a hand is an ace and a ten."""
    return cards == 2 and has_ace and total == 11


@kernel("Blackjack-v1", kwargs={"natural": False, "sab": True})
class Blackjack:
    """For each hand: the total with aces as one, whether there is an ace, and the number of cards.

    `suit` and `face` are those of the card shown, for pictures: 0 ... 3, and 0 ... 2 for jack, queen and king.
    """

    observation_space = Tuple((Discrete(32), Discrete(11), Discrete(2)))
    action_space = Discrete(2)
    state: ClassVar = {
        "player_total": int,
        "player_has_ace": bool,
        "player_cards": int,
        "dealer_total": int,
        "dealer_has_ace": bool,
        "dealer_cards": int,
        "shown": int,
        "suit": int,
        "face": int,
    }

    class Params:
        """`natural`: a natural pays 1.5; `sab`: it wins, as in Sutton and Barto's book; overrides `natural`."""

        natural = False
        sab = False

    def configure(natural=False, sab=False):
        return {"natural": natural, "sab": sab}

    def reset(s, rng, p):
        """Two cards each. Gymnasium also draws a suit, and a face for a ten, of the card shown."""
        s.shown = draw_card(rng)
        hidden = draw_card(rng)
        s.dealer_total = s.shown + hidden
        s.dealer_has_ace = s.shown == 1 or hidden == 1
        s.dealer_cards = 2
        first = draw_card(rng)
        second = draw_card(rng)
        s.player_total = first + second
        s.player_has_ace = first == 1 or second == 1
        s.player_cards = 2
        s.suit = integers(rng, 0, 4)
        s.face = integers(rng, 0, 3) if s.shown == 10 else 0

    def step(s, action, rng, p):
        """Stick (0) or take a card (1)."""
        if action == 1:
            card = draw_card(rng)
            s.player_total += card
            s.player_has_ace = s.player_has_ace or card == 1
            s.player_cards += 1
            bust = worth(s.player_total, s.player_has_ace) > 21
            return -1.0 if bust else 0.0, bust
        while worth(s.dealer_total, s.dealer_has_ace) < 17:
            card = draw_card(rng)
            s.dealer_total += card
            s.dealer_has_ace = s.dealer_has_ace or card == 1
            s.dealer_cards += 1
        player = score(s.player_total, s.player_has_ace)
        dealer = score(s.dealer_total, s.dealer_has_ace)
        reward = 1.0 if player > dealer else -1.0 if player < dealer else 0.0
        if is_natural(s.player_total, s.player_has_ace, s.player_cards):
            if p.sab:
                if not is_natural(s.dealer_total, s.dealer_has_ace, s.dealer_cards):
                    reward = 1.0
            elif p.natural and reward == 1.0:
                reward = 1.5
        return reward, True

    def observe(s, obs, p):
        """Value of the player's hand, the dealer's first card, and whether an ace counts eleven."""
        value = worth(s.player_total, s.player_has_ace)
        obs[0] = value
        obs[1] = s.shown
        obs[2] = 1 if value > s.player_total else 0
