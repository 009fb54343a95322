"""What happens in the home and to the servers, and when: made from the seed, day by day."""
import random
from datetime import timedelta

OUTAGES = ("away", "500", "503", "slow", "silent", "cut before", "cut after")


class Plan:
    """`events` are (moment, name, arguments); what happens at a moment is done before the next."""

    def __init__(self, begin, days, seed):
        self.source, self.events = random.Random(seed), []
        for day in range(days):
            self.day(begin + timedelta(days=day), day)
        self.rare(begin, days)
        self.events.sort(key=lambda each: each[0])

    def add(self, moment, name, *arguments):
        self.events.append((moment, name, arguments))

    def day(self, midnight, day):
        at = lambda hour, spread=1.0: midnight + timedelta(hours=hour + self.source.uniform(0, spread))
        # What is measured in the morning: the meter always, the others often.
        morning = ["meter"] + ["cuff"] * (self.source.random() < 0.9) + ["scale"] * (self.source.random() < 0.4)
        self.add(at(6.5), "visit", morning + ["sensor"])
        if self.source.random() < 0.4:
            evening = ["meter"] + ["cuff"] * (self.source.random() < 0.7) + ["sensor"] * (self.source.random() < 0.5)
            self.add(at(18.5), "visit", evening)
        if self.source.random() < 0.15:
            self.add(at(12), "visit", ["meter"])
        if self.source.random() < 0.3:
            self.add(at(20), "page", self.source.choice([1, 10, 60, 240]))
        self.add(midnight + timedelta(hours=4), "sample", day)
        self.add(midnight + timedelta(hours=23), "drift")

    def rare(self, begin, days):
        moment = lambda day: begin + timedelta(days=day, seconds=self.source.randrange(86400))
        # A server fails for ten minutes to two days; between two failures are some days.
        for place in ("study", "clinic"):
            day = self.source.uniform(1, 3)
            while day < days - 1:
                length = self.source.choice([1 / 144, 1 / 24, 0.25, 0.5, 1, 2])
                since = moment(int(day))
                self.add(since, "server", place, self.source.choice(OUTAGES))
                self.add(since + timedelta(days=length), "server", place, "up")
                day += length + self.source.uniform(2, 7)
        every = lambda first, step: range(first, days - 2, step)
        for day in every(5, 17):
            since = moment(day)
            self.add(since, "disable", "study")
            self.add(since + timedelta(days=self.source.uniform(0.5, 3)), "enable", "study")
        # Few restarts, and close to each other: the error of a slope falls faster than a life grows.
        for day in every(2, 121):
            self.add(moment(day), "restart", "KILL")
        for day in every(3, 121):
            self.add(moment(day), "add guest")
            self.add(moment(min(day + 25, days - 1)), "remove guest")
        for day in every(3, 13):
            self.add(moment(day), "reload")
        for day in every(7, 19):
            self.add(moment(day), "bluetoothd")
        for day in every(2, 11):
            self.add(moment(day), "lose link", self.source.choice(["meter", "cuff"]))
        for day in every(6, 29):
            self.add(begin + timedelta(days=day, hours=22), "fall back", self.source.choice(["meter", "cuff", "scale"]))
            self.add(begin + timedelta(days=day + 3, hours=22), "set clocks")
        for day in every(10, 31):
            self.add(moment(day), "set sensor", self.source.choice([-86400, -7200, -600, 600, 7200, 86400]))
        for day in every(14, 14):
            self.add(begin + timedelta(days=day, hours=21), "new sensor")
