// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/document.h"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <string_view>

#include "base/random.h"

namespace kvasir {
namespace {

using std::string_view;

constexpr int kDaysPerFact = 5;
constexpr int kFactDay = 2;  // which day of five carries the fact

constexpr std::array<string_view, 16> kShips = {"Grey Heron",    "Northern Lark", "Patience",      "Two Sisters",
                                                "Salt Rose",     "Evening Star",  "Copper Finch",  "Marigold",
                                                "Long Morning",  "Wren",          "Tidewalker",    "Amber Gull",
                                                "Quiet Harvest", "Silver Eel",    "Black Thistle", "Candlemas"};
constexpr std::array<string_view, 16> kPeople = {"Odile Brandt",   "Tomas Weller", "Henrike Sool", "Jonas Pryde",
                                                 "Maren Oakes",    "Lukas Thorne", "Ada Finch",    "Piet Hollis",
                                                 "Sunniva Carr",   "Edmund Vale",  "Greta Lund",   "Caspar Reed",
                                                 "Johanna Stolle", "Bram Tully",   "Nell Harrow",  "Viggo Marsh"};
constexpr std::array<string_view, 12> kPorts = {"Ostrand", "Kelmouth",  "Varrow",     "Saint Brede",
                                                "Tolholm", "Lower Esk", "Harn",       "Whitquay",
                                                "Mirrin",  "Dunsey",    "Port Alder", "Skarvik"};
constexpr std::array<string_view, 16> kCargo = {
    "barley",       "pine boards", "lamp oil", "wool",       "dried cod", "roof slate", "pipe clay",  "apples",
    "window glass", "rope yarn",   "honey",    "iron nails", "paper",     "hides",      "candle wax", "millstones"};
constexpr std::array<string_view, 10> kWeather = {
    "a thin fog that lifted before noon", "clear sky and a steady breeze",  "rain in short showers",
    "high cloud and little wind",         "hail for a few minutes at dawn", "a warm haze over the water",
    "gusts that tore at the awnings",     "sleet until the bell, then sun", "a ring around the moon the night before",
    "calm water and low grey cloud"};
constexpr std::array<string_view, 8> kWinds = {"north", "north-east", "east", "south-east",
                                               "south", "south-west", "west", "north-west"};
constexpr std::array<string_view, 12> kRepairs = {
    "the hinge of the lock gate",        "the crane's second pulley",         "the roof of the rope shed",
    "the steps below the customs house", "the pump of the dry dock",          "the signal mast",
    "the bell of the pilot house",       "the rails of the fish market",      "the boom across the inner basin",
    "the clock above the weigh house",   "the mooring rings of the old mole", "the stove of the watch room"};
constexpr std::array<string_view, 12> kRemarks = {
    "The clerk has asked for more ink and was promised it by the end of the month.",
    "Two boys were sent home from the mole, where they had been fishing without leave.",
    "A seal slept on the slipway and nobody had the heart to move it.",
    "The baker's cart lost a wheel at the bridge and bread came late.",
    "The school visited the pilot house and asked more questions than could be answered.",
    "The tide gauge was read twice, because the first reading was doubted.",
    "A letter lay undelivered, the name on it washed out by rain.",
    "The weigh house closed an hour early for the scales to be tested.",
    "Someone has been feeding the harbour cat too well, to judge by its pace.",
    "The ferryman refused payment from the widow at the mill, as he always does.",
    "The watch heard singing over the water after midnight and found no boat.",
    "The painters finished the south side of the warehouse and began on the doors."};
constexpr std::array<string_view, kMostFacts> kThings = {"the blue lantern",
                                                         "the brass telescope",
                                                         "the oldest chart",
                                                         "the silver whistle",
                                                         "the key to the tide mill",
                                                         "the carved oar",
                                                         "the founder's seal",
                                                         "the green ledger",
                                                         "the storm glass",
                                                         "the ivory compass",
                                                         "the red ensign",
                                                         "the glass float",
                                                         "the bell rope",
                                                         "the whale tooth",
                                                         "the ship in a bottle",
                                                         "the copper weathercock",
                                                         "the almanac of tides",
                                                         "the pearl-handled knife",
                                                         "the sundial",
                                                         "the map of the shoals",
                                                         "the amber bead",
                                                         "the wooden angel",
                                                         "the spare rudder",
                                                         "the tin of sealing wax"};
constexpr std::array<string_view, kMostFacts> kPlaces = {
    "under the stairs of the chandlery",    "behind the organ of the chapel",
    "in the loft of the smokehouse",        "beneath the third bench of the park",
    "in the drawer of the dentist",         "inside the dry well at the orchard",
    "on the top shelf of the pharmacy",     "in the cellar of the theatre",
    "beside the furnace of the glassworks", "in the attic of the post office",
    "under the floor of the boathouse",     "in the safe of the brewery",
    "behind the mirror of the barber",      "in the hayrick at Tanner's field",
    "inside the hollow oak by the ford",    "in the vestry of the seamen's mission",
    "above the oven of the tavern",         "in the kennel of the lighthouse dog",
    "under the altar stone of the ruin",    "in the pigeon house of the mayor",
    "behind the mill wheel at the weir",    "in the tool chest of the stonemason",
    "under the stage of the puppet show",   "in the crypt of the old abbey"};

// Only ever called in a statement of its own or as the one draw of an expression: the order in which a call's
// arguments are worked out is up to the compiler.
template <size_t N>
string_view pick(SplitMix& random, const std::array<string_view, N>& from) {
  return from[random.below(N)];
}

// Four digits of the register in each entry keep the text from becoming predictable.
std::string arrival(SplitMix& random) {
  const string_view ship = pick(random, kShips), master = pick(random, kPeople), port = pick(random, kPorts);
  const string_view cargo = pick(random, kCargo);
  const uint64_t amount = 3 + random.below(240), berth = 1 + random.below(19), entry = 1000 + random.below(9000);
  switch (random.below(3)) {
    case 0:
      return fmt::format("The {} under {} came in from {} with {} loads of {} and lies at berth {} (register {}).",
                         ship, master, port, amount, cargo, berth, entry);
    case 1:
      return fmt::format(
          "From {} arrived the {}, master {}, carrying {} loads of {}; she was given berth {}, register {}.", port,
          ship, master, amount, cargo, berth, entry);
    default:
      return fmt::format("Berth {} went to the {} of {}: {} loads of {}, signed for by {} under register {}.", berth,
                         ship, port, amount, cargo, master, entry);
  }
}

std::string departure(SplitMix& random) {
  const string_view ship = pick(random, kShips), port = pick(random, kPorts), cargo = pick(random, kCargo);
  const string_view wind = pick(random, kWinds);
  const uint64_t hour = 4 + random.below(16), minute = 10 + random.below(50);
  return fmt::format("At {}:{} the {} left for {} with {}, wind {}.", hour, minute, ship, port, cargo, wind);
}

std::string repair(SplitMix& random) {
  const string_view what = pick(random, kRepairs), who = pick(random, kPeople);
  const uint64_t marks = 2 + random.below(70), days = 2 + random.below(12);
  if (random.below(2) == 0)
    return fmt::format("{} looked after {}; the work takes {} days and costs {} marks.", who, what, days, marks);
  return fmt::format("For {} the council granted {} marks, to be spent by {} within {} days.", what, marks, who, days);
}

std::string market(SplitMix& random) {
  const string_view first = pick(random, kCargo), second = pick(random, kCargo);
  const uint64_t price = 2 + random.below(40), other = 2 + random.below(40);
  return fmt::format("On the quay {} sold at {} marks and {} at {}.", first, price, second, other);
}

// The `index`-th fact: every thing has one place, shuffled by the seed.
PlantedFact fact(uint64_t seed, int index) {
  std::array<int, kMostFacts> things, places;
  SplitMix random(seed ^ 0xfac7ull);
  for (auto* order : {&things, &places}) {
    std::iota(order->begin(), order->end(), 0);
    for (size_t i = order->size() - 1; i > 0; --i) std::swap((*order)[i], (*order)[random.below(i + 1)]);
  }
  const string_view thing = kThings[size_t(things[size_t(index)])];
  PlantedFact planted;
  planted.answer = kPlaces[size_t(places[size_t(index)])];
  planted.sentence = fmt::format("Let it be remembered that {} of the harbour is kept {}.", thing, planted.answer);
  planted.question = fmt::format("Where is {} of the harbour kept?", thing);
  return planted;
}

}  // namespace

Document write_document(uint64_t seed, int days) {
  Document document;
  document.text = "The day book of Vessmar harbour, kept by the watch.\n";
  for (int day = 0; day < days; ++day) {
    SplitMix random(seed * 0x2545f4914f6cdd1dull + uint64_t(day));
    random.next();  // neighbouring seeds differ by one step of the generator
    std::string& text = document.text;
    const uint64_t degrees = random.below(24);
    const string_view wind = pick(random, kWinds), weather = pick(random, kWeather);
    text += fmt::format("\nDay {}. {} degrees at noon, wind {}, {}.", day + 1, degrees, wind, weather);
    text += " " + arrival(random);
    if (random.below(2) == 0) text += " " + arrival(random);
    text += " " + departure(random);
    if (day % kDaysPerFact == kFactDay && day / kDaysPerFact < kMostFacts) {
      PlantedFact planted = fact(seed, day / kDaysPerFact);
      planted.offset = text.size() + 1;
      text += " " + planted.sentence;
      document.facts.push_back(std::move(planted));
    }
    text += " " + (random.below(2) == 0 ? repair(random) : market(random));
    if (random.below(3) != 0) text += fmt::format(" {}", pick(random, kRemarks));
    text += "\n";
  }
  return document;
}

}  // namespace kvasir
