"""journal -> conversation: append-only, so that every turn once sent stays as it was.

Folded entry by entry beside the state. A turn's results become one user message when the turn is
over (its next step is reserved): one tool_result per tool_use, in order, as quoted data with its
provenance. Nothing in that data is ever an instruction; it is marked as data and never read back.

What no longer fits the window begins a new conversation (``runtime.model.shorten``). Where one
began stands in the journal, so that whoever folds it comes to the same bytes.
"""

from msgspec.structs import replace

from messages import events as e
from messages.agent import AgentSpec
from messages.ledger import Entry
from messages.state import LoopState
from runtime.loop.evolve import begin, evolve, seal
from runtime.loop.strategies.loop import MEMORY
from runtime.model.conversation import Conversation, said
from runtime.model.pairs import newest, unpaired
from runtime.model.results import answer, opening, results
from runtime.model.sendable import ids_of, sendable
from runtime.model.shorten import cleared, summed_up


def fold_conversation(
    conversation: Conversation | None, entry: Entry, agent: AgentSpec
) -> Conversation:
    """The conversation after one more entry of the journal.

    Raises:
        BrokenChain: the entry does not follow.
    """
    for event in entry.events:
        if conversation is None:
            conversation = _opened(begin(entry, event), agent)
            continue
        conversation = _told(conversation, event, agent, entry.version)
    if conversation is None:
        raise AssertionError("an entry without events")
    state = seal(conversation.state, entry.version, entry.hash, entry.at, entry.active_s)
    return replace(conversation, state=state)


def _opened(state: LoopState, agent: AgentSpec) -> Conversation:
    heading = (opening(state, agent),)
    empty = Conversation(state=state, messages=(), size=0, most_tokens=0, heading=heading)
    return said(empty, "user", list(heading))


def _told(
    conversation: Conversation, event: e.AnyEvent, agent: AgentSpec, version: int
) -> Conversation:
    """One event: the state moves on, and where it ends a turn or speaks, so does the talk."""
    before, state = conversation.state, evolve(conversation.state, event)
    conversation = replace(conversation, state=state)
    match event:
        case e.StepReserved() if before.turn is not None:
            told = results(before, before.turn, conversation.open_ids, state, agent)
            ended = said(conversation, "user", [*told, *conversation.answers])
            return replace(ended, answers=())
        case e.Decided():
            return _decided(conversation, event, agent)
        case e.Consulted(purpose="summary"):
            return summed_up(conversation, agent, event, version)
        case e.Observed(kind="ok") if event.evidence and event.evidence.tool in MEMORY:
            kept = {**conversation.memory, event.evidence.tool: event.evidence.payload}
            return replace(conversation, memory=kept)
        case e.HumanAnswered():
            words = answer(event.person, event.answer)
            answers, all_said = (*conversation.answers, words), (*conversation.said, words)
            return replace(conversation, answers=answers, said=all_said)
        case _:
            return conversation


def _decided(conversation: Conversation, event: e.Decided, agent: AgentSpec) -> Conversation:
    if event.recipe.kept_turns is not None:
        conversation = cleared(
            conversation, agent, event.recipe.kept_turns, event.recipe.first_version
        )
    if 0 < event.recipe.tokens < conversation.size:
        conversation = replace(
            conversation,
            most_tokens=event.recipe.tokens,
            density=event.recipe.tokens / conversation.size,
            is_counted=True,
        )
    problem = conversation.unpaired or unpaired(newest(conversation.messages))
    conversation = replace(conversation, unpaired=problem)
    ids = ids_of(event.content, event.step, conversation.ids)
    ended = said(conversation, "assistant", sendable(event.content, ids))
    return replace(
        ended,
        turns=ended.turns + 1,
        ids=ended.ids.union(ids),
        open_ids=ids,
        model=event.recipe.model,
        agent_code=event.recipe.agent_code,
    )
