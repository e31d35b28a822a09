"""The models that are looked at: those whose graph breaks in eval or training, cheap ones first.

Names are those of the catalogue of ``benchmarks/lint_truth``.
"""

from __future__ import annotations

_FIRST = """
    BartModel BlenderbotModel MarianModel PegasusModel BioGptModel BlenderbotSmallModel Phi3LongRope
    LongformerModel Wav2Vec2Model ViltModel TapasModel XLMModel
"""
_TEXT = """
    MixtralForCausalLM SwitchTransformersForConditionalGeneration BigBirdModel BigBirdPegasusModel
    FlaubertModel XmodModel RwkvModel FunnelModel LEDModel MBartModel M2M100Model OPTModel FSMTModel
    BartForSequenceClassification NllbMoeModel ProphetNetForConditionalGeneration LlamaDynamicRope
    GraniteMoeModel GraniteMoeHybridModel JetMoeModel OlmoHybridModel Qwen3_5TextModel IBertModel
    FalconH1Model NemotronHModel BambaModel JambaModel ReformerModel MvpModel MraModel XGLMModel
    PLBartModel LongformerForQuestionAnswering
"""
_OTHER = """
    WhisperModel HubertModel WavLMModel UniSpeechModel UniSpeechSatModel SEWModel SEWDModel
    Data2VecAudioModel Wav2Vec2ConformerModel Wav2Vec2BertModel DetrModel ConditionalDetrModel
    DeformableDetrModel TableTransformerModel MusicgenForCausalLM ParakeetEncoder PeAudioEncoder
    AriaTextModel GotOcr2Model InternVLModel GlmOcrVisionModel Glm4vVisionModel PixtralVisionModel
    Siglip2VisionModel VideoLlama3VisionModel Idefics2Model FastSpeech2ConformerModel VitsModel
    SeamlessM4TModel Wav2Vec2ForCTC SpeechT5ForSpeechToText Speech2TextModel
    ViltForQuestionAnswering TimeSeriesTransformerModel VoxtralRealtimeEncoder VJEPA2Model UdopModel
    HubertForSequenceClassification PegasusXModel YosoModel MaskFormerModel
    LEDForConditionalGeneration Qwen3_5MoeTextModel TapasForQuestionAnswering
    FunnelForTokenClassification GroundingDinoModel MMGroundingDinoModel T5ForSequenceClassification
    AutoformerModel InformerModel Kosmos2Model AriaModel Blip2Model InstructBlipModel PaliGemmaModel
    DbrxModel EncodecModel MimiModel LongcatFlashModel Qwen2VLModel Qwen3NextModel
    BigBirdSparse BigBirdPegasusSparse ReformerUnsetBuckets SeamlessM4Tv2Model
    SwitchTransformersModel
"""
NAMES: tuple[str, ...] = (*_FIRST.split(), *_TEXT.split(), *_OTHER.split())

#: GraphMend's list (transformers 4.52.4), as far as the catalogue's models can be made there.
GRAPHMEND: tuple[str, ...] = (
    "T5Model",
    "T5ForSequenceClassification",
    "WhisperModel",
    "BartModel",
    "BartForSequenceClassification",
    "MarianModel",
    "BioGptModel",
    "PegasusModel",
    "BlenderbotModel",
    "BlenderbotSmallModel",
    "LayoutLMv3Model",
    "Phi3LongRope",
    "PhimoeModel",
    "GroundingDinoModel",
    "LongformerModel",
    "LongformerForQuestionAnswering",
    "ClapModel",
    "MixtralModel",
    "MixtralForCausalLM",
    "SwitchTransformersModel",
    "SwitchTransformersForConditionalGeneration",
    "NllbMoeModel",
    "Qwen2MoeModel",
    "GraniteMoeModel",
    "DbrxModel",
)
