"""Greetings, thanks, goodbyes, and what the assistant says of itself."""

from __future__ import annotations

from legato.corpora.world.frame import Kind, Table, fact

_REPLIES = {  # name -> (reply, accepted, wordings)
    "greeting": ("Hello, how can I help?", "hello;hi;hey;good morning;good evening", (
        "Hello.", "Hi there.", "Hello Legato.", "Good morning.", "Good evening.", "Hey Legato.", "Good afternoon.",
        "Hi.", "Hello, are you there?", "Good day to you.", "Hi Legato, good morning.", "Hello again.",
        "Hey there, Legato.", "Good morning, Legato.", "Good evening, Legato.", "Hello there.")),
    "thanks": ("You are welcome.", "you are welcome;youre welcome;welcome;my pleasure", (
        "Thank you.", "Thanks.", "Thanks a lot.", "Thank you very much.", "Thanks, that helps.", "Many thanks.",
        "Thank you, Legato.", "That was kind, thank you.", "Thanks for your help.", "Great, thank you.",
        "Thank you so much.", "Okay, thanks.")),
    "goodbye": ("Goodbye, talk to you soon.", "goodbye;bye;good night;see you", (
        "Goodbye.", "Bye bye.", "See you later.", "Good night.", "Goodbye, Legato.", "I have to go now, bye.",
        "That is all, goodbye.", "See you tomorrow.", "Bye, Legato.", "Good night, Legato.", "Talk to you later.",
        "Bye for now.")),
    "who": ("I am Legato, a voice assistant.", "legato", (
        "Who are you?", "What is your name?", "What are you called?", "Tell me your name.", "Who am I talking to?",
        "What should I call you?", "Do you have a name?", "Please say your name.", "What's your name?",
        "May I ask your name?")),
    "what-can": ("I answer short spoken questions.", "questions;answer", (
        "What can you do?", "How can you help me?", "What do you do?", "What are you good at?",
        "Tell me what you can do.", "What can I ask you?", "Can you help me?", "What are you for?",
        "What kind of things can you do?", "How do you help people?")),
    "how": ("I am fine, thank you.", "fine;well;good", (
        "How are you?", "How are you today?", "How is it going?", "Are you well?", "How do you do?", "How do you feel?",
        "How are you doing?", "Are you okay?", "I hope you are well.", "How are things with you?")),
    "sorry": ("No problem at all.", "no problem;thats okay;no worries", (
        "Sorry.", "I am sorry.", "Sorry about that.", "My mistake.", "Oh, sorry.", "Please forgive me.",
        "Excuse me, I am sorry.", "Sorry, that was wrong.")),
    "human": ("No, I am a voice assistant.", "no", (
        "Are you a person?", "Are you human?", "Am I talking to a human?", "Are you a real person?",
        "Are you a man or a machine?", "Do you have a body?", "Are you alive?", "Can you eat?")),
    "hear": ("Yes, I can hear you.", "yes", (
        "Can you hear me?", "Do you hear me?", "Are you listening?", "Is this working?", "Can you hear my voice?",
        "Am I loud enough?", "Testing, do you hear this?", "Legato, do you hear me?")),
}  # fmt: skip


def kinds() -> list[Kind]:
    """The kinds of this family; one fact each, which is never held (the wordings are)."""
    return [
        Table(f"talk-{name}", "talk", wordings, reply, len(wordings) ** 0.5, facts=[fact(f"talk:{name}", accepted)])
        for name, (reply, accepted, wordings) in _REPLIES.items()
    ]
