"""Word lists the corpus draws from. Plain data; it does not know the split, which a hash decides."""

from __future__ import annotations

NAMES = (
    "Ada Alan Alma Amir Ana Anton Aria Ben Bruno Carla Chen Clara Dana Daniel David Diego Elena Eli Emil Emma Eric Eva "
    "Felix Fiona Frank Greta Hana Hugo Ida Igor Iris Ivan Jack Jana Jonas Julia Kai Karim Kate Kenji Lara Lea Leo Lina "
    "Lucas Maja Marco Maria Mark Marta Max Mei Mia Mila Milan Mona Nadia Nina Noah Nora Oleg Oscar Otto Paul Petra "
    "Quinn Rafael Rita Robin Rosa Ruth Sam Sara Selma Simon Sofia Stella Sven Tara Theo Tom Uma Vera Victor Viola "
    "Walter Wanda Yara Yuki Zoe"
).split()

WORDS = (
    "anchor apple arrow autumn bag banana basket bean bell bench bird blanket boat book bottle bread brick bridge "
    "brush bucket butter button cabin cable cake camel camera candle canvas carpet castle cat chair cheese cherry chess clock "
    "cloud coat coffee coin copper corner cotton cow crane cup curtain desert desk diamond dog door dragon dream drum "
    "eagle egg elbow engine falcon feather fence field finger fire fish flag flower flute forest fork fountain fox frog garden "
    "gate ghost giraffe glass glove goat grape guitar hammer harbor hat hill honey horse house ice island jacket jam "
    "jar kettle key king kite kitten knife ladder lake lamp leaf lemon letter library lion lizard magnet map marble meadow "
    "melon milk mirror monkey moon mountain mouse mushroom needle nest nut oak ocean olive onion orange orchard owl paint "
    "panda paper parrot peach pearl pencil pepper piano picture pillow pilot pine pirate planet plate pocket pond potato "
    "puppet puzzle queen rabbit radio rain ribbon ring river robot rocket rope rose sail salt sand scarf school seed shadow "
    "sheep shell ship shoe silver sky snow soap sock soup spider spoon spring star station stone storm stove sugar summer sun "
    "table tea tent thunder ticket tiger tower train tree trumpet tulip tunnel turtle umbrella valley velvet village "
    "violin wagon wall walnut water whale wheel window winter wizard wolf wood yard zebra"
).split()

ADJECTIVES = (
    "big small old new red blue green quiet loud warm cold happy tired bright dark heavy light round tiny tall clean "
    "empty full fast slow soft hard sweet fresh kind brave wild"
).split()

VERBS_PAST = (
    "found lost painted carried opened closed bought sold watched cleaned moved broke fixed hid dropped washed counted drew "
    "followed liked"
).split()

COLOURS = "red blue green yellow orange purple pink brown black white grey silver gold teal violet crimson amber".split()

ANIMALS = "cat dog rabbit parrot turtle horse goldfish hamster goat duck lizard owl".split()

FOODS = "pizza soup rice bread pasta salad curry cake apples noodles pancakes cheese tacos stew berries beans".split()

JOBS = "baker pilot teacher nurse farmer painter driver writer cook gardener dentist singer builder sailor tailor".split()

TOPICS = (
    "love politics history football music cooking travel space medicine law money quantum physics chemistry dinosaurs "
    "art movies fashion war religion poetry opera tennis chess economics biology volcanoes robots castles Rome "
    "Shakespeare marketing gardening photography philosophy"
).split()

TOOL_VERBS = (
    "get find fetch search list check read create add make set update send book delete remove cancel start stop open "
    "close convert count measure play order reserve track schedule rename archive print scan sort share copy lock"
).split()

TOOL_NOUNS = (
    "weather parcel invoice ticket room flight order customer account report song recipe alarm meeting reminder file "
    "folder lamp door price stock train bus table book photo video note task event contact message email user "
    "device sensor server job backup log route map city country product cart coupon payment refund review rating score "
    "game team player course lesson exam machine robot garden tank valve pump camera window heater timer budget loan"
).split()

PARAMETERS = (
    "city location name id code date title color size count amount price limit level days hours minutes user owner email "
    "address street country language unit format topic query text subject status priority category model brand kind room "
    "floor seat table speed volume width height weight age year month note tag label source target path"
).split()

NUMERIC = frozenset(
    "count amount price limit level days hours minutes floor seat speed volume width height weight age year id".split()
)
"""Parameters that are integers; the others are strings unless a schema says otherwise."""
